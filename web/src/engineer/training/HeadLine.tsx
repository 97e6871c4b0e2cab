import { useMemo } from "preact/hooks";
import { shareOf } from "../../colour/scale";
import { short } from "../../maths/format";
import type { Limit, Scale, TrainedStatistic } from "../../source/answers";
import type { Strips } from "../../source/training";
import { statisticName } from "../overview/statistics";
import { binOf, cellOf, type Row } from "./choice";
import { lineScale } from "./lineScale";
import { type Reading, seriesOf } from "./reading";
import { leftOf, type StripLayout } from "./stripLayout";
import { stripScale } from "./stripScale";

const HEIGHT = 132;
const EDGE = 10; // above and below
const SHORE = 12; // below the line: where maps are stored

interface Props {
  readonly strips: Strips;
  readonly statistic: TrainedStatistic;
  readonly row: Row;
  readonly step: number;
  readonly layout: StripLayout;
  /** Steps of which a map was stored. */
  readonly stored: readonly number[];
  readonly onStep: (step: number) => void;
}

/** One head over the steps, which stand where the strip above has them. */
export function HeadLine({ strips, statistic, row, step, layout, stored, onStep }: Props) {
  const series = useMemo(() => seriesOf(strips, cellOf(row, strips)), [strips, row]);
  const { limit } = statistic;
  const scale = lineScale(series, limit, stripScale(strips, statistic));
  const y = (value: number) =>
    HEIGHT - SHORE - (HEIGHT - SHORE - EDGE) * (shareOf(value, scale) || 0);
  const x = (bin: number) => leftOf(layout, bin + 0.5);
  const bin = binOf(step, strips);
  const value = series[bin]?.mean ?? Number.NaN;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the arrow keys move along the line
    <svg
      class="train-line"
      data-part="head-line"
      data-head={row.label}
      width={layout.left + layout.width + 1}
      height={HEIGHT}
      role="img"
      aria-label={`${statisticName(strips.statistic)} of ${row.label} over the steps`}
      onClick={(event) => onStep(stepAt(event, layout, strips))}
    >
      <Frame {...{ scale, layout, y }} />
      {limit && <LimitLine {...{ limit, scale, layout, y }} />}
      {strips.least !== strips.mean && <path class="train-band" d={bandOf(series, x, y)} />}
      <path class="train-path" d={pathOf(series, x, y)} data-part="head-path" />
      {series.length === 1 && <circle class="train-point" cx={x(0)} cy={y(value)} r={3} />}
      {stored.map((one) => (
        <rect
          key={one}
          class="train-stored"
          data-part="stored-at"
          data-step={one}
          x={x(binOf(one, strips)) - 2}
          y={HEIGHT - SHORE + 5}
          width={4}
          height={4}
        >
          <title>{`a map is stored at step ${one}`}</title>
        </rect>
      ))}
      <line class="train-now" x1={x(bin)} x2={x(bin)} y1={0} y2={HEIGHT - SHORE} />
      {!Number.isNaN(value) && <circle class="train-here" cx={x(bin)} cy={y(value)} r={4} />}
    </svg>
  );
}

function stepAt(event: MouseEvent, layout: StripLayout, strips: Strips): number {
  const corner = (event.currentTarget as Element).getBoundingClientRect();
  const part = (event.clientX - corner.left - layout.left) / Math.max(layout.width, 1);
  const bin = Math.min(Math.max(Math.floor(part * layout.bins), 0), layout.bins - 1);
  return strips.first[bin] ?? 0;
}

interface Drawn {
  readonly scale: Scale;
  readonly layout: StripLayout;
  readonly y: (value: number) => number;
}

/** Three numbers up the left side, each with its line across. */
export function Frame({ scale, layout, y }: Drawn) {
  const right = layout.left + layout.width;
  const middle = scale.log ? Math.sqrt(scale.low * scale.high) : (scale.low + scale.high) / 2;
  return (
    <>
      {[scale.low, middle, scale.high].map((value) => (
        <g key={value}>
          <line class="train-rule" x1={layout.left} x2={right} y1={y(value)} y2={y(value)} />
          <text x={layout.left - 6} y={y(value)} text-anchor="end" dominant-baseline="middle">
            {short(value)}
          </text>
        </g>
      ))}
    </>
  );
}

function LimitLine({ limit, scale, layout, y }: Drawn & { readonly limit: Limit }) {
  if (limit.value < scale.low || limit.value > scale.high) return null;
  const right = layout.left + layout.width;
  const at = y(limit.value);
  return (
    <g data-part="limit-line" data-value={limit.value}>
      <line class="train-limit" x1={layout.left} x2={right} y1={at} y2={at} />
      <text class="train-limit-word" x={right - 4} y={at - 5} text-anchor="end">
        limit {short(limit.value)}
      </text>
    </g>
  );
}

type Across = (bin: number) => number;
type Up = (value: number) => number;

/** A line that is interrupted where nothing was heard. */
export function pathOf(series: readonly Reading[], x: Across, y: Up): string {
  let isOn = false;
  const parts = series.map((one, bin) => {
    if (Number.isNaN(one.mean)) {
      isOn = false;
      return "";
    }
    const pen = isOn ? "L" : "M";
    isOn = true;
    return `${pen}${x(bin).toFixed(2)} ${y(one.mean).toFixed(2)}`;
  });
  return parts.join("");
}

/** From the least to the largest of each bin; interrupted as the line is. */
export function bandOf(series: readonly Reading[], x: Across, y: Up): string {
  const runs: { one: Reading; bin: number }[][] = [];
  series.forEach((one, bin) => {
    if (Number.isNaN(one.least)) return;
    const last = runs.at(-1);
    if (last?.at(-1)?.bin === bin - 1) last.push({ one, bin });
    else runs.push([{ one, bin }]);
  });
  return runs
    .map((run) => {
      const at = (bin: number, value: number) => `${x(bin).toFixed(2)} ${y(value).toFixed(2)}`;
      const upper = run.map(({ one, bin }) => at(bin, one.largest));
      const lower = run.map(({ one, bin }) => at(bin, one.least));
      return `M${[...upper, ...lower.reverse()].join("L")}Z`;
    })
    .join("");
}
