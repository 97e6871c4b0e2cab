import { dot, type Matrix, map, multiply, transpose } from "./matrix";
import { softmax } from "./softmax";

// Attention with queries of one sequence and keys and values of another, or of a part of it.

export interface Attended {
  readonly scores: Matrix; // (queries, keys)
  readonly scaled: Matrix; // divided, and −∞ where hidden
  readonly weights: Matrix; // rows sum to 1
  readonly context: Matrix; // (queries, d_v)
}

export interface How {
  readonly scaled: boolean;
  /** Whether query i may see key j; all of them without it. */
  readonly sees?: (i: number, j: number) => boolean;
}

/** softmax(Q Kᵀ / √d_k) V; Q is (queries, d_k), K (keys, d_k), V (keys, d_v). */
export function attendTo(queries: Matrix, keys: Matrix, values: Matrix, how: How): Attended {
  const divisor = how.scaled ? Math.sqrt(keys[0]?.length ?? 1) : 1;
  const scores = multiply(queries, transpose(keys));
  const scaled = map(scores, (score, i, j) =>
    (how.sees?.(i, j) ?? true) ? score / divisor : Number.NEGATIVE_INFINITY,
  );
  const weights = scaled.map(softmax);
  return { scores, scaled, weights, context: multiply(weights, values) };
}

/** A pair of numbers turned by an angle (radians): what rotary positions do to each pair. */
export function turned([x, y]: readonly [number, number], angle: number): [number, number] {
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  return [c * x - s * y, s * x + c * y];
}

/** q at place m times k at place n, each turned by its place: depends on n − m alone. */
export function rotaryScore(
  q: readonly [number, number],
  k: readonly [number, number],
  places: readonly [m: number, n: number],
  anglePerPlace: number,
): number {
  return dot(turned(q, places[0] * anglePerPlace), turned(k, places[1] * anglePerPlace));
}
