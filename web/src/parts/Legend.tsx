import { useEffect, useRef } from "preact/hooks";
import { css, PALETTE } from "../colour/palette";
import { shareOf, topOf } from "../colour/scale";
import { short } from "../maths/format";
import type { Scale } from "../source/answers";

const WIDTH = 256;
const HEIGHT = 10;

interface Props {
  readonly scale: Scale;
  readonly words?: string;
  /** All of what stands below the colours, where it is not to be composed from the scale. */
  readonly caption?: string;
  /** From pale to dark. */
  readonly turned?: boolean;
}

/** The colours with their numbers: every picture prints its scale and its pooling. */
export function Legend({ scale, words, caption, turned = false }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen) return;
    PALETTE.forEach((rgb, code) => {
      pen.fillStyle = css(rgb);
      pen.fillRect(turned ? PALETTE.length - 1 - code : code, 0, 1, HEIGHT);
    });
  }, [turned]);
  return (
    <figure class="legend">
      <div class="bar">
        <div aria-hidden="true">
          <canvas ref={canvas} width={WIDTH} height={HEIGHT} />
        </div>
        {ticks(scale).map(([value, text]) => (
          <span key={value} class="tick" style={{ left: `${100 * shareOf(value, scale)}%` }}>
            {text}
          </span>
        ))}
      </div>
      <figcaption>{caption ?? composed(scale, words)}</figcaption>
    </figure>
  );
}

function composed(scale: Scale, words?: string): string {
  const ends = `${short(scale.low)}–${short(topOf(scale))}`;
  const how = `${scale.name}, ${scale.log ? "log" : "linear"} ${ends}`;
  return words ? `${how}; ${words}` : how;
}

/** Decades of a log scale, whose ends stand for all beyond them; else the ends and the middle. */
export function ticks(scale: Scale): [number, string][] {
  const top = topOf(scale);
  if (!scale.log) {
    const middle = (scale.low + top) / 2;
    return [scale.low, middle, top].map((value) => [value, short(value)]);
  }
  const first = Math.round(Math.log10(scale.low)) + 1;
  const stop = Math.floor(Math.log10(top / 2)) + 1; // none beside the end
  const decades = Array.from({ length: Math.max(stop - first, 0) }, (_, n) => 10 ** (first + n));
  const inner = decades.map((value): [number, string] => [value, short(value)]);
  return [[scale.low, `≤ ${short(scale.low)}`], ...inner, [top, `≥ ${short(top)}`]];
}
