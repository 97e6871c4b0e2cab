// A training run in bytes (src/regard/views/run.py).

/** One statistic over the steps; number n of a bin is that of place ⌊n ÷ heads⌋, head n mod heads. */
export interface Strips {
  readonly statistic: string;
  /** The first and the last step of each bin; the same where a bin is one step. */
  readonly first: Float64Array;
  readonly last: Float64Array;
  readonly cells: number;
  readonly heads: number;
  /** bins × cells, NaN where a head was not heard. All three are one where a bin is one step. */
  readonly mean: Float32Array;
  readonly least: Float32Array;
  readonly largest: Float32Array;
  /** The first step over the limit, −1 where there is none, and the number there. */
  readonly over: Float64Array;
  readonly overValue: Float32Array;
}

export interface Snapshot {
  readonly step: number;
  readonly rows: number;
  readonly columns: number;
  /** rows × columns: the mean weight of a cell. */
  readonly weights: Float32Array;
}

type Size = (name: string) => number;

/** What the server sent, its sizes told by name. */
export function stripsOf(statistic: string, bytes: ArrayBuffer, size: Size): Strips {
  const [bins, cells, planes] = [size("bins"), size("cells"), size("planes")];
  const wide = 2 * bins + cells;
  const steps = new Float64Array(bytes, 0, wide);
  const numbers = new Float32Array(bytes, 8 * wide);
  const plane = (n: number) => numbers.subarray(n * bins * cells, (n + 1) * bins * cells);
  const mean = plane(0);
  const isBinned = planes > 1;
  return {
    statistic,
    first: steps.subarray(0, bins),
    last: steps.subarray(bins, 2 * bins),
    cells,
    heads: size("heads"),
    mean,
    least: isBinned ? plane(1) : mean,
    largest: isBinned ? plane(2) : mean,
    over: steps.subarray(2 * bins),
    overValue: numbers.subarray(planes * bins * cells),
  };
}

export function snapshotOf(bytes: ArrayBuffer, size: Size): Snapshot {
  return {
    step: size("step"),
    rows: size("rows"),
    columns: size("columns"),
    weights: new Float32Array(bytes),
  };
}
