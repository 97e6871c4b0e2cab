import { type Attended, attendTo } from "./attend";
import type { Matrix, Vector } from "./matrix";

// Generation with and without a cache of keys and values.

/** What one head has computed for a sentence. */
export interface HeadRows {
  readonly queries: Matrix;
  readonly keys: Matrix;
  readonly values: Matrix;
}

/** Row t when token t has just arrived: its query with the keys and values so far. */
export function rowFromCache(rows: HeadRows, t: number, scaled: boolean): Vector {
  const seen = t + 1;
  const [keys, values] = [rows.keys.slice(0, seen), rows.values.slice(0, seen)];
  const { context } = attendTo(rows.queries.slice(t, seen), keys, values, { scaled });
  return context[0] ?? [];
}

/** All rows at once, with the whole sentence there. */
export function allRows(rows: HeadRows, how: { scaled: boolean; causal: boolean }): Attended {
  return attendTo(rows.queries, rows.keys, rows.values, {
    scaled: how.scaled,
    sees: (i, j) => !how.causal || j <= i,
  });
}

export function largestDifference(a: Vector, b: Vector): number {
  return a.reduce((most, value, n) => Math.max(most, Math.abs(value - (b[n] ?? 0))), 0);
}

export interface HeadSizes {
  readonly width: number;
  readonly d_k: number;
  readonly d_v: number;
}

export interface Work {
  readonly without: number;
  readonly with: number;
}

/**
 * Multiplications of one head while n tokens are generated one by one, with a causal mask.
 * A token costs p = width · (2 d_k + d_v) for q, k and v; a query with a key costs s = d_k + d_v
 * for the score and the weighted value.
 *   without a cache  Σ_t (t p + t (t + 1) / 2 · s) = p n (n + 1) / 2 + s n (n + 1) (n + 2) / 6
 *   with one         Σ_t (p + t s)                 = p n + s n (n + 1) / 2
 */
export function workOf(n: number, { width, d_k, d_v }: HeadSizes): Work {
  const [p, s] = [width * (2 * d_k + d_v), d_k + d_v];
  return {
    without: (p * n * (n + 1)) / 2 + (s * n * (n + 1) * (n + 2)) / 6,
    with: p * n + (s * n * (n + 1)) / 2,
  };
}

export interface CacheSizes {
  readonly layers: number;
  readonly key_heads: number;
  readonly d: number;
  /** Of one number. */
  readonly bytes: number;
}

/** 2 (k and v) · layers · key heads · d · tokens · bytes */
export function cacheBytes({ layers, key_heads, d, bytes }: CacheSizes, tokens: number): number {
  return 2 * layers * key_heads * d * tokens * bytes;
}
