import type { Vector } from "../../maths/matrix";

// Arithmetic spelt out: which terms of a long sum are shown, which keys of a long row.

export interface Term {
  readonly left: number;
  readonly right: number;
}

export interface SpeltProducts {
  readonly first: readonly Term[];
  /** How many are left out in the middle. */
  readonly between: number;
  readonly last: readonly Term[];
}

const MOST_TERMS = 8;

/** a₁·b₁ + a₂·b₂ + …; of a long sum the first ones and the last. */
export function spellProducts(a: Vector, b: Vector, most = MOST_TERMS): SpeltProducts {
  const terms = a.map((left, i) => ({ left, right: b[i] as number }));
  if (terms.length <= most) return { first: terms, between: 0, last: [] };
  const first = terms.slice(0, most - 1);
  return { first, between: terms.length - most, last: terms.slice(-1) };
}

/** The keys of one row: spelt out, seen but only summed up, and hidden by the mask. */
export interface RowKeys {
  readonly kept: readonly number[];
  readonly rest: readonly number[];
  readonly hidden: readonly number[];
}

const MOST_KEYS = 12;
const STRONGEST = 8;

/** All keys the row may see; of many the strongest and its own. */
export function rowKeys(masked: Vector, weights: Vector, own: number): RowKeys {
  const all = masked.map((_, j) => j);
  const seen = all.filter((j) => masked[j] !== Number.NEGATIVE_INFINITY);
  const hidden = all.filter((j) => masked[j] === Number.NEGATIVE_INFINITY);
  if (seen.length <= MOST_KEYS) return { kept: seen, rest: [], hidden };
  const byWeight = [...seen].sort((i, j) => (weights[j] as number) - (weights[i] as number));
  const kept = new Set([...byWeight.slice(0, STRONGEST), own]);
  return {
    kept: seen.filter((j) => kept.has(j)),
    rest: seen.filter((j) => !kept.has(j)),
    hidden,
  };
}

/** The largest score is taken off first where a power could not be read otherwise. */
export function shiftOf(scores: Vector): number {
  const finite = scores.filter(Number.isFinite);
  const reach = finite.reduce((most, score) => Math.max(most, Math.abs(score)), 0);
  return reach > 30 ? finite.reduce((most, score) => Math.max(most, score), -Infinity) : 0;
}

export function sumOf(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}

/** q1, q2, …: names of dimensions. */
export function dims(letter: string, count: number): string[] {
  return Array.from({ length: count }, (_, d) => `${letter}${d + 1}`);
}
