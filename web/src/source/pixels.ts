import { valueOfCode } from "../colour/scale";
import type { How, Scale } from "./answers";
import type { Tile } from "./binary";
import type { Rows } from "./rows";

// Weights pooled into pixels, as src/regard/viewer/pixels.py defines it:
// mean   Σ p ÷ Σ 1/visible over the cells of a pixel that may be seen
// max    the largest p × visible

/** Which pixel a token falls on, and which tokens are in the picture at all. */
export interface Axis {
  readonly start: number;
  readonly stop: number;
  readonly pixels: number;
  pixel(token: number): number;
}

export function tileAxis(tile: number, level: number, index: number, tokens: number): Axis {
  const start = index * tile * level;
  const stop = Math.min(start + tile * level, tokens);
  return { start, stop, pixels: tile, pixel: (token) => Math.floor((token - start) / level) };
}

/** All tokens on so many pixels. */
export function wholeAxis(tokens: number, pixels: number): Axis {
  return {
    start: 0,
    stop: tokens,
    pixels,
    pixel: (token) => Math.floor((token * pixels) / tokens),
  };
}

/** Codes of the carried rows among `down`, over the keys of `across`. */
export function pooled(rows: Rows, down: Axis, across: Axis, how: How, scale: Scale): Tile {
  const found = new Float64Array(down.pixels * across.pixels);
  const even = new Float64Array(down.pixels * across.pixels);
  const columns = new Int32Array(Math.max(across.stop - across.start, 0));
  for (let n = 0; n < columns.length; n += 1) columns[n] = across.pixel(across.start + n);
  for (let row = down.start; row < down.stop; row += 1) {
    if (!rows.has(row)) continue;
    const visible = rows.visible(row);
    const line = down.pixel(row) * across.pixels;
    rows.each(row, across.start, across.stop, (from, to, weights, offset) => {
      for (let key = from; key < to; key += 1) {
        const at = line + (columns[key - across.start] as number);
        const weight = weights[offset + key] as number;
        even[at] = (even[at] as number) + 1 / visible;
        if (how === "mean") found[at] = (found[at] as number) + weight;
        else found[at] = Math.max(found[at] as number, weight * visible);
      }
    });
  }
  return encoded(found, even, how, scale);
}

function encoded(found: Float64Array, even: Float64Array, how: How, scale: Scale): Tile {
  const codes = new Uint8Array(found.length).fill(scale.hidden);
  let nan = 0;
  for (let n = 0; n < found.length; n += 1) {
    const share = even[n] as number;
    if (share === 0) continue;
    const times = how === "mean" ? (found[n] as number) / share : (found[n] as number);
    if (Number.isNaN(times)) nan += 1;
    else codes[n] = codeOf(times, scale);
  }
  return { codes, nan };
}

/** The code of a multiple of uniform. */
export function codeOf(times: number, scale: Scale): number {
  const low = Math.log(scale.low);
  const share = (Math.log(Math.max(times, 0)) - low) / (Math.log(scale.high) - low);
  const steps = scale.last - scale.first;
  return scale.first + Math.round(Math.min(Math.max(share, 0), 1) * steps);
}

/** A part of a map of codes, with hidden pixels beyond its edge. */
export function cut(
  codes: Uint8Array,
  size: readonly [number, number],
  tile: number,
  at: { readonly y: number; readonly x: number },
  hidden: number,
): Uint8Array {
  const found = new Uint8Array(tile * tile).fill(hidden);
  const left = at.x * tile;
  const wide = Math.min(size[1] - left, tile);
  for (let row = 0; row < Math.min(size[0] - at.y * tile, tile); row += 1) {
    const start = (at.y * tile + row) * size[1] + left;
    found.set(codes.subarray(start, start + wide), row * tile);
  }
  return found;
}

/** A map of codes on fewer pixels: the mean of what they stand for. */
export function shrunk(
  codes: Uint8Array,
  size: readonly [number, number],
  pixels: readonly [number, number],
  scale: Scale,
): Uint8Array {
  const sums = new Float64Array(pixels[0] * pixels[1]);
  const counts = new Uint32Array(sums.length);
  for (let row = 0; row < size[0]; row += 1) {
    const line = Math.floor((row * pixels[0]) / size[0]) * pixels[1];
    for (let column = 0; column < size[1]; column += 1) {
      const code = codes[row * size[1] + column] as number;
      if (code === scale.hidden) continue;
      const at = line + Math.floor((column * pixels[1]) / size[1]);
      sums[at] = (sums[at] as number) + valueOfCode(code, scale);
      counts[at] = (counts[at] as number) + 1;
    }
  }
  return Uint8Array.from(sums, (sum, n) =>
    counts[n] ? codeOf(sum / (counts[n] as number), scale) : scale.hidden,
  );
}

/** A small map on a square of side × side pixels, each repeated as often as needed. */
export function stretched(
  codes: Uint8Array,
  size: readonly [number, number],
  side: number,
): Uint8Array {
  return Uint8Array.from({ length: side * side }, (_, n) => {
    const row = Math.floor((Math.floor(n / side) * size[0]) / side);
    return codes[row * size[1] + Math.floor(((n % side) * size[1]) / side)] as number;
  });
}
