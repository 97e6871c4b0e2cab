import type { Row } from "./choice";

// Where the heads and steps of a strip lie, in CSS pixels. Heads go down, steps go across.

export interface StripLayout {
  /** Where the first step begins, and how wide all of them are. */
  readonly left: number;
  readonly width: number;
  readonly bins: number;
  /** Pixels of a head. */
  readonly row: number;
  readonly tops: readonly number[];
  /** Of everything, the numbers of the steps below included. */
  readonly height: number;
  /** Whether single heads are numbered. */
  readonly isNumbered: boolean;
}

export const GAP = 4; // between layers
export const TOP = 3;
export const FOOT = 20;
const LETTER = 7;
const NUMBERS = 22;
const LEAST_LEFT = 68; // a chart below has its numbers there

/** The fewer heads, the higher each is. */
const HEIGHTS: readonly (readonly [most: number, pixels: number])[] = [
  [12, 16],
  [32, 12],
  [72, 7],
  [128, 4],
  [180, 3],
];
const LOWEST = 2;
const LEGIBLE = 12;

export function layoutOf(
  room: number,
  rows: readonly Row[],
  places: readonly string[],
  bins: number,
): StripLayout {
  const row = HEIGHTS.find(([most]) => rows.length <= most)?.[1] ?? LOWEST;
  const isNumbered = row >= LEGIBLE;
  const longest = Math.max(0, ...places.map((name) => name.length));
  const left = Math.max(10 + LETTER * longest + (isNumbered ? NUMBERS : 0), LEAST_LEFT);
  const tops = rows.map((one, n) => TOP + n * row + one.place * GAP);
  const bottom = (tops.at(-1) ?? TOP - row) + row;
  return {
    left,
    width: Math.max(room - left - 1, 0),
    bins,
    row,
    tops,
    height: bottom + FOOT,
    isNumbered,
  };
}

export interface At {
  readonly row: number;
  readonly bin: number;
}

/** The bin at a distance from the left; null beside them. */
export function binAt(layout: StripLayout, x: number): number | null {
  const bin = Math.floor(((x - layout.left) / layout.width) * layout.bins);
  return bin < 0 || bin >= layout.bins ? null : bin;
}

/** The head and the bin at a point; null beside them. */
export function at(layout: StripLayout, x: number, y: number): At | null {
  const bin = binAt(layout, x);
  const row = layout.tops.findIndex((top) => y >= top && y < top + layout.row);
  return row < 0 || bin === null ? null : { row, bin };
}

/** The left edge of a bin. */
export function leftOf(layout: StripLayout, bin: number): number {
  return layout.left + (bin / Math.max(layout.bins, 1)) * layout.width;
}
