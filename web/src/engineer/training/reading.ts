import type { Strips } from "../../source/training";

/** What a strip says of a head at a bin. */
export interface Reading {
  /** Its first and its last step. */
  readonly first: number;
  readonly last: number;
  readonly mean: number;
  readonly least: number;
  readonly largest: number;
}

export function readingAt(strips: Strips, cell: number, bin: number): Reading {
  const n = bin * strips.cells + cell;
  const of = (numbers: Float32Array | Float64Array, at: number) => numbers[at] ?? Number.NaN;
  return {
    first: of(strips.first, bin),
    last: of(strips.last, bin),
    mean: of(strips.mean, n),
    least: of(strips.least, n),
    largest: of(strips.largest, n),
  };
}

/** Every bin of one head, in their order. */
export function seriesOf(strips: Strips, cell: number): readonly Reading[] {
  return Array.from(strips.first, (_, bin) => readingAt(strips, cell, bin));
}

/** Whether a bin is more than one step, so that its number is a mean. */
export function isBinned(strips: Strips): boolean {
  return strips.least !== strips.mean;
}
