import { PALETTE, type Rgb, shade } from "../../colour/palette";
import { shareOf, topOf, valueOfCode } from "../../colour/scale";
import { roundUp } from "../../maths/format";
import type { Scale } from "../../source/answers";

// Codes → colours. The log display has its colours along the scale, the linear one from 0 to the
// largest value in view.

const CODES = 256;

export interface Ink {
  /** Colours as the bytes of an ImageData, one word for each code. */
  readonly words: Uint32Array;
  /** Two inks of the same name are the same. */
  readonly name: string;
  /** What the legend prints. */
  readonly scale: Scale;
}

/** Single weights as they are. */
export const RAW_SCALE: Scale = {
  name: "weight",
  low: 1e-4,
  high: 1,
  log: true,
  hidden: 0,
  first: 1,
  last: 255,
};

const isLittleEndian = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

function word([red, green, blue]: Rgb): number {
  const packed = isLittleEndian
    ? (255 << 24) | (blue << 16) | (green << 8) | red
    : (red << 24) | (green << 16) | (blue << 8) | 255;
  return packed >>> 0;
}

function inkOf(scale: Scale, hidden: Rgb, name: string, colour: (code: number) => Rgb): Ink {
  const words = Uint32Array.from({ length: CODES }, (_, code) =>
    word(code === scale.hidden ? hidden : colour(code)),
  );
  return { words, name: `${name}/${hidden.join()}`, scale };
}

export function logInk(scale: Scale, hidden: Rgb): Ink {
  return inkOf(scale, hidden, `${scale.name}/log`, (code) =>
    shade(shareOf(valueOfCode(code, scale), scale)),
  );
}

export function linearInk(scale: Scale, hidden: Rgb, top: number): Ink {
  const shown = { ...scale, log: false, low: 0, high: top, top };
  const ink = inkOf(scale, hidden, `${scale.name}/${top}`, (code) =>
    shade(valueOfCode(code, scale) / top),
  );
  return { ...ink, scale: shown };
}

/** 1, 2 or 5 times a power of ten, not smaller than the value of the largest code in view. */
export function linearTop(largestCode: number, scale: Scale): number {
  const value = valueOfCode(Math.max(largestCode, scale.first), scale);
  return Math.min(roundUp(value), topOf(scale));
}

/** The code of a value, as the server gives it for a tile. */
export function codeOf(value: number, scale: Scale): number {
  if (Number.isNaN(value)) return scale.hidden;
  const part = Math.log(value / scale.low) / Math.log(scale.high / scale.low);
  const steps = scale.last - scale.first;
  return scale.first + Math.round(Math.min(Math.max(part, 0), 1) * steps);
}

/** "#e9e9e4" → its channels; anything else is the palette's first colour. */
export function rgbOf(text: string): Rgb {
  const found = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(text.trim());
  if (!found) return PALETTE[0] as Rgb;
  const [, red, green, blue] = found;
  return [red, green, blue].map((part) => Number.parseInt(part ?? "0", 16)) as unknown as Rgb;
}
