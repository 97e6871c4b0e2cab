import { useEffect, useRef } from "preact/hooks";
import { css, PALETTE } from "../colour/palette";
import { shareOf } from "../colour/scale";
import { short } from "../maths/format";
import type { Scale } from "../source/answers";

const WIDTH = 256;
const HEIGHT = 10;

/** The colours with their numbers: every picture prints its scale and its pooling. */
export function Legend({ scale, words }: { scale: Scale; words: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen) return;
    PALETTE.forEach((rgb, code) => {
      pen.fillStyle = css(rgb);
      pen.fillRect(code, 0, 1, HEIGHT);
    });
  }, []);
  return (
    <figure class="legend">
      <div class="bar">
        <canvas ref={canvas} width={WIDTH} height={HEIGHT} />
        {ticks(scale).map(([value, text]) => (
          <span key={value} class="tick" style={{ left: `${100 * shareOf(value, scale)}%` }}>
            {text}
          </span>
        ))}
      </div>
      <figcaption>
        {scale.name}, {scale.log ? "log" : "linear"} {short(scale.low)}–{short(scale.high)}
        {words && `; ${words}`}
      </figcaption>
    </figure>
  );
}

/** Decades of a log scale, whose ends stand for all beyond them; else the ends and the middle. */
export function ticks(scale: Scale): [number, string][] {
  if (!scale.log) {
    const middle = (scale.low + scale.high) / 2;
    return [scale.low, middle, scale.high].map((value) => [value, short(value)]);
  }
  const first = Math.round(Math.log10(scale.low));
  const last = Math.round(Math.log10(scale.high));
  const decades = Array.from({ length: last - first + 1 }, (_, n) => 10 ** (first + n));
  return decades.map((value, n) => {
    const text = short(value);
    return [value, n === 0 ? `≤ ${text}` : n === decades.length - 1 ? `≥ ${text}` : text];
  });
}
