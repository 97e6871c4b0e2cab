import type { How } from "../../source/answers";
import { originOf, type Shape, type Size, type View } from "./view";

// Which tiles show a view. A tile has TILE × TILE pixels of `level` × `level` tokens.

export const TILE = 256;
/** A pixel of a tile may be a little smaller than one of the screen. */
const LEAST_PIXEL = 0.75;

export type Colouring = How | "raw";

export interface TileAt {
  readonly level: number;
  readonly y: number;
  readonly x: number;
  readonly how: Colouring;
}

export function tileName(at: TileAt): string {
  return `${at.how}/${at.level}/${at.y}/${at.x}`;
}

/** The finest level whose pixels are not smaller than the screen's; `levels` are finest first. */
export function chooseLevel(levels: readonly number[], pixelsPerToken: number): number | null {
  const fits = levels.find((level) => level * pixelsPerToken >= LEAST_PIXEL);
  return fits ?? levels.at(-1) ?? null;
}

/** Those that are seen, nearest to the middle first. */
export function tilesIn(
  view: View,
  size: Size,
  shape: Shape,
  level: number,
  how: Colouring,
): TileAt[] {
  const side = level * TILE;
  const origin = originOf(view, size);
  const columns = spanOf(origin.x, size.width / view.z, shape.keys, side);
  const rows = spanOf(origin.y, size.height / view.z, shape.queries, side);
  const found = rows.flatMap((y) => columns.map((x) => ({ level, y, x, how })));
  const away = (at: TileAt) =>
    ((at.x + 0.5) * side - view.x) ** 2 + ((at.y + 0.5) * side - view.y) ** 2;
  return found.sort((a, b) => away(a) - away(b));
}

function spanOf(start: number, length: number, total: number, side: number): number[] {
  const first = Math.max(Math.floor(start / side), 0);
  const last = Math.min(Math.ceil((start + length) / side), Math.ceil(total / side));
  return Array.from({ length: Math.max(last - first, 0) }, (_, n) => first + n);
}

/** Whether one tile shows all of it, so that the overview costs one request. */
export function fitsInOne(level: number, shape: Shape): boolean {
  return level * TILE >= Math.max(shape.keys, shape.queries);
}
