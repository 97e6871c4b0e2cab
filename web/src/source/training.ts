import type { Known } from "./answers";

// A training run, as the server says it (src/regard/viewer/training.py).

export interface Limit {
  readonly side: "above" | "below";
  readonly value: number;
  /** Not told by this run: what a monitor takes where nobody gives another. */
  readonly customary: boolean;
}

export interface TrainedStatistic {
  readonly words: string;
  /** one: a share 0–1; decades: on a log scale; spread: from the smallest to the largest. */
  readonly span: "one" | "decades" | "spread";
  readonly limit: Limit | null;
}

export interface Alarm {
  readonly kind: string;
  readonly head: string;
  /** The first step over the limit. */
  readonly step: number;
  readonly statistic: string;
  readonly value: Known;
  readonly threshold: Known;
}

export interface TrainingFacts {
  readonly recording: number;
  readonly revision: number;
  /** How many steps were sampled. */
  readonly samples: number;
  /** The first and the last that was; null where none was. */
  readonly steps: readonly [number, number] | null;
  /** Layers, those of all stacks one after another. */
  readonly places: readonly string[];
  /** Heads of each place. */
  readonly heads: readonly number[];
  readonly statistics: Readonly<Record<string, TrainedStatistic>>;
  readonly alarms: readonly Alarm[];
  /** The steps of which each head has a stored map. */
  readonly maps: Readonly<Record<string, readonly number[]>>;
}

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
