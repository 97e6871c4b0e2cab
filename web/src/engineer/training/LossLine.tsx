import { shareOf } from "../../colour/scale";
import { count } from "../../maths/format";
import type { Alarm, TrainingFacts } from "../../source/answers";
import type { Strips } from "../../source/training";
import { binOf, choose } from "./choice";
import { bandOf, Frame, pathOf } from "./HeadLine";
import { brokenRuns, type LossReading, lossScale } from "./loss";
import { isBinned } from "./reading";
import { binAt, FOOT, leftOf, type StripLayout } from "./stripLayout";
import { ticksOf } from "./stripPainting";

const HEIGHT = 150;
const ALARMS = 14; // above the line: where alarms are marked
const BOTTOM = HEIGHT - FOOT - 4;
const CROSS = 4;
const LEAST_WIDTH = 2;

interface Props {
  readonly facts: TrainingFacts;
  readonly strips: Strips;
  readonly series: readonly LossReading[];
  readonly layout: StripLayout;
  readonly pointed: number | null;
  readonly now: number | null;
  readonly go: (bin: number) => void;
  readonly onPoint: (bin: number | null) => void;
}

/** The line, its gaps, and the alarms, each above the step where its strip has it. */
export function LossLine({ facts, strips, series, layout, pointed, now, go, onPoint }: Props) {
  const scale = lossScale(series);
  const y = (value: number) => BOTTOM - (BOTTOM - ALARMS - 8) * (shareOf(value, scale) || 0);
  const x = (bin: number) => leftOf(layout, bin + 0.5);
  const meant = (event: MouseEvent) => {
    const corner = (event.currentTarget as Element).getBoundingClientRect();
    return binAt(layout, event.clientX - corner.left);
  };
  return (
    <svg
      class="train-line"
      width={layout.left + layout.width + 1}
      height={HEIGHT}
      aria-hidden="true"
      onPointerMove={(event) => onPoint(meant(event))}
      onPointerLeave={() => onPoint(null)}
      onClick={(event) => {
        const bin = meant(event);
        if (bin !== null) go(bin);
      }}
    >
      <Frame {...{ scale, layout, y }} />
      <Steps {...{ layout, strips }} />
      <Broken {...{ series, layout }} />
      {isBinned(strips) && <path class="train-band" d={bandOf(series, x, y)} />}
      <path class="train-path" d={pathOf(series, x, y)} data-part="loss-path" />
      {series.map(
        (one, bin) =>
          isAlone(series, bin) && (
            <circle key={bin} class="train-point" cx={x(bin)} cy={y(one.mean)} r={2} />
          ),
      )}
      <AlarmMarks {...{ facts, strips, x }} />
      {now !== null && <Here bin={now} {...{ series, x, y }} />}
      {pointed !== null && pointed !== now && <Here bin={pointed} {...{ series, x, y }} />}
    </svg>
  );
}

/** A number between two gaps, through which no line goes. */
function isAlone(series: readonly LossReading[], bin: number): boolean {
  const isKnown = (at: number) => !Number.isNaN(series[at]?.mean ?? Number.NaN);
  return isKnown(bin) && !isKnown(bin - 1) && !isKnown(bin + 1);
}

type Across = (bin: number) => number;

interface HereProps {
  readonly bin: number;
  readonly series: readonly LossReading[];
  readonly x: Across;
  readonly y: (value: number) => number;
}

function Here({ bin, series, x, y }: HereProps) {
  const value = series[bin]?.mean ?? Number.NaN;
  return (
    <>
      <line class="train-now" x1={x(bin)} x2={x(bin)} y1={0} y2={BOTTOM + 4} />
      {!Number.isNaN(value) && <circle class="train-here" cx={x(bin)} cy={y(value)} r={4} />}
    </>
  );
}

function Steps({ layout, strips }: { layout: StripLayout; strips: Strips }) {
  return (
    <>
      {ticksOf(layout, strips).map(({ x, step }, n) => (
        <g key={step}>
          <line class="train-rule" x1={x} x2={x} y1={BOTTOM + 2} y2={BOTTOM + 6} />
          <text
            x={n === 0 ? layout.left : x}
            y={BOTTOM + 18}
            text-anchor={n === 0 ? "start" : "middle"}
          >
            {n === 0 ? `step ${count(step)}` : count(step)}
          </text>
        </g>
      ))}
    </>
  );
}

/** Where the loss is no finite number: a band over the gap, and a cross where it begins. */
function Broken({ series, layout }: { series: readonly LossReading[]; layout: StripLayout }) {
  return (
    <>
      {brokenRuns(series).map(({ first, last }) => {
        const left = leftOf(layout, first);
        const width = Math.max(leftOf(layout, last + 1) - left, LEAST_WIDTH);
        const [x, y] = [leftOf(layout, first + 0.5), BOTTOM - CROSS - 2];
        return (
          <g key={first} data-part="loss-gap" data-step={series[first]?.first}>
            <rect class="train-gap" x={left} y={ALARMS} width={width} height={BOTTOM - ALARMS} />
            <path
              class="train-cross"
              d={`M${x - CROSS} ${y - CROSS}l${2 * CROSS} ${2 * CROSS}m0 ${-2 * CROSS}l${-2 * CROSS} ${2 * CROSS}`}
            />
            <title>the loss is NaN or infinite</title>
          </g>
        );
      })}
    </>
  );
}

interface AlarmsProps {
  readonly facts: TrainingFacts;
  readonly strips: Strips;
  readonly x: Across;
}

/** One mark for all alarms that begin in a bin. */
function AlarmMarks({ facts, strips, x }: AlarmsProps) {
  const byBin = new Map<number, Alarm[]>();
  for (const alarm of facts.alarms) {
    const bin = binOf(alarm.step, strips);
    byBin.set(bin, [...(byBin.get(bin) ?? []), alarm]);
  }
  return (
    <>
      {[...byBin].map(([bin, alarms]) => (
        // biome-ignore lint/a11y/noStaticElementInteractions: the key a goes from alarm to alarm
        <g
          key={bin}
          data-part="loss-alarm"
          data-step={alarms[0]?.step}
          data-heads={alarms.map((one) => one.head).join(" ")}
          onClick={(event) => {
            event.stopPropagation();
            const [one] = alarms;
            if (one) choose(one.statistic, one.head, one.step);
          }}
        >
          <line class="train-alarm-line" x1={x(bin)} x2={x(bin)} y1={ALARMS / 2} y2={BOTTOM} />
          <circle class="train-alarm" cx={x(bin)} cy={ALARMS / 2} r={4.5} />
          <title>{alarms.map(alarmWords).join("\n")}</title>
        </g>
      ))}
    </>
  );
}

function alarmWords({ head, kind, step }: Alarm): string {
  return `${head} ${kind}, since step ${count(step)}`;
}
