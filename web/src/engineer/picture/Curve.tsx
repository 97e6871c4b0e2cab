import { useRef } from "preact/hooks";
import { useWidth } from "../../parts/useWidth";
import type { AxisPart } from "../../source/answers";
import { type Sound, Spectrogram } from "./Spectrogram";

const HEIGHT = 140;
const FOOT = 20;

interface Props {
  readonly part: AxisPart;
  readonly weights: Float32Array | null;
  readonly sound: Sound | null;
  readonly spot: number | null;
  readonly read: number | null;
  readonly onHover: (position: number | null) => void;
  readonly onPick: (position: number) => void;
}

/** Weights over the moments of a sound. */
export function Curve({ part, weights, sound, spot, read, onHover, onPick }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const { start, count } = part;
  const { seconds, first } = part.moments ?? { seconds: 1, first: 0 };
  const xOf = (n: number) => ((n + 0.5) / count) * width;
  const positionAt = (event: MouseEvent) => {
    const around = (event.currentTarget as Element).getBoundingClientRect();
    const share = (event.clientX - around.left) / around.width;
    return start + Math.min(Math.max(Math.floor(share * count), 0), count - 1);
  };
  const marks = [spot, read].filter((n) => n !== null && n >= start && n < start + count);
  const step = niceStep((count * seconds * 70) / Math.max(width, 1));
  const ticks = Array.from(
    { length: Math.floor((count * seconds) / step) + 1 },
    (_, n) => n * step,
  );
  return (
    <div class="pic-curve" ref={box} data-part="curve">
      {sound && <Spectrogram {...{ part, sound, width }} />}
      <svg
        role="img"
        aria-label={`Weights over ${(count * seconds).toFixed(1)} seconds of sound`}
        width={width}
        height={HEIGHT}
        onPointerMove={(event) => onHover(positionAt(event))}
        onPointerLeave={() => onHover(null)}
        onPointerUp={(event) => onPick(positionAt(event))}
      >
        {weights && <path class="line" d={pathOf(weights, part, width)} />}
        {marks.map((n) => (
          <line
            key={n}
            class={n === spot ? "spot" : "read"}
            x1={xOf((n ?? 0) - start)}
            x2={xOf((n ?? 0) - start)}
            y1={0}
            y2={HEIGHT - FOOT}
          />
        ))}
        {ticks.map((at) => (
          <text key={at} x={(at / (count * seconds)) * width} y={HEIGHT - 4}>
            {`${Number((first + at).toFixed(3))} s`}
          </text>
        ))}
      </svg>
    </div>
  );
}

/** 1, 2 or 5 times a power of ten, at least the value. */
export function niceStep(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-6)));
  return ([1, 2, 5, 10].find((n) => n * power >= value) ?? 10) * power;
}

export function pathOf(weights: Float32Array, { start, count }: AxisPart, width: number): string {
  let high = 0;
  for (let n = start; n < start + count; n += 1) {
    const weight = weights[n] as number;
    if (Number.isFinite(weight)) high = Math.max(high, weight);
  }
  let pen = "M";
  return Array.from({ length: count }, (_, n) => {
    const weight = weights[start + n] as number;
    if (!Number.isFinite(weight)) {
      pen = "M";
      return "";
    }
    const y = (HEIGHT - FOOT) * (1 - weight / (high || 1)) + 1;
    const point = `${pen}${(((n + 0.5) / count) * width).toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
    return point;
  }).join("");
}
