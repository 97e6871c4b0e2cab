import { figure } from "../maths/format";

const WIDTH = 1000;
const HEIGHT = 64;
const SECONDS = 0.02; // of one key

interface Props {
  readonly frames: number;
  readonly weights: Float32Array | undefined;
}

/** What a word attends to in a sound: weight over time. */
export function Moments({ frames, weights }: Props) {
  const own = [...(weights ?? [])].slice(0, frames);
  const highest = Math.max(...own, 1e-6);
  const best = own.indexOf(highest);
  const x = (n: number) => (((n + 0.5) / frames) * WIDTH).toFixed(1);
  const path = own
    .map(
      (weight, n) =>
        `${n ? "L" : "M"} ${x(n)} ${(HEIGHT - 2 - (HEIGHT - 8) * (weight / highest)).toFixed(1)}`,
    )
    .join(" ");
  const padding = weights ? 1 - own.reduce((sum, weight) => sum + weight, 0) : 0;
  return (
    <figure class="play-time" data-part="time">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {own.length > 0 && <path class="area" d={`${path} L ${WIDTH} ${HEIGHT} L 0 ${HEIGHT} Z`} />}
        <path class="line" d={path} />
      </svg>
      <figcaption class="soft play-small">
        <span>0 s</span>
        <span role="status" data-part="moment" data-value={String(best * SECONDS)}>
          {best >= 0 && `most at ${(best * SECONDS).toFixed(2)} s (${figure(highest, 3)})`}
          {padding > 0.005 && `; ${figure(padding, 2)} behind the end of the sound`}
        </span>
        <span>{(frames * SECONDS).toFixed(1)} s</span>
      </figcaption>
    </figure>
  );
}
