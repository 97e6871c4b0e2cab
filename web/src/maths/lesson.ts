import { add, type Matrix, map, multiply, transpose } from "./matrix";
import { softmax } from "./softmax";

// The lesson, step by step, as src/regard/learn computes it. Any number of any step may be
// replaced by hand: it is put in right after the step that computed it, and all that follows
// follows from it.

export interface Projections {
  readonly w_q: Matrix;
  readonly w_k: Matrix;
  readonly w_v: Matrix;
}

/** What a lesson starts from. */
export interface Given {
  readonly words: Matrix; // (tokens, width)
  readonly positions: Matrix; // (tokens, width)
  readonly heads: readonly Projections[];
  readonly w_o: Matrix | null; // (heads · d_v, width)
  readonly w_1: Matrix; // (width, hidden)
  readonly w_2: Matrix; // (hidden, width)
  readonly withPositions: boolean;
  readonly scaled: boolean;
  readonly causal: boolean;
}

export interface WorkedHead extends Projections {
  readonly queries: Matrix;
  readonly keys: Matrix;
  readonly values: Matrix;
  readonly scores: Matrix;
  readonly scaled: Matrix;
  readonly masked: Matrix; // −∞ where hidden
  readonly weights: Matrix;
  readonly context: Matrix;
}

export interface WorkedBlock {
  readonly w_1: Matrix;
  readonly w_2: Matrix;
  readonly residual: Matrix; // x + attention
  readonly normed: Matrix;
  readonly hidden: Matrix; // normed @ w_1
  readonly activated: Matrix; // max(hidden, 0)
  readonly mlp: Matrix; // activated @ w_2
  readonly residual_2: Matrix; // normed + mlp
  readonly output: Matrix;
}

export interface Worked {
  readonly words: Matrix;
  readonly positions: Matrix;
  readonly x: Matrix;
  readonly heads: readonly WorkedHead[];
  readonly concat: Matrix;
  readonly w_o: Matrix | null;
  readonly output: Matrix;
  /** null where the output is not as wide as x, so that nothing can be added to it. */
  readonly block: WorkedBlock | null;
}

/** Name of a matrix → "row,column" → the number that stands there instead. */
export type Edits = ReadonlyMap<string, ReadonlyMap<string, number>>;

export const NO_EDITS: Edits = new Map();

export function cellKey(row: number, column: number): string {
  return `${row},${column}`;
}

/** The name of a head's matrix among the edits. */
export function headMatrix(head: number, name: keyof WorkedHead): string {
  return `h${head}.${name}`;
}

function edited(name: string, matrix: Matrix, edits: Edits): Matrix {
  const changes = edits.get(name);
  if (!changes?.size) return matrix;
  return map(matrix, (value, r, c) => changes.get(cellKey(r, c)) ?? value);
}

export function workOut(given: Given, edits: Edits = NO_EDITS): Worked {
  const put = (name: string, matrix: Matrix) => edited(name, matrix, edits);
  const words = put("words", given.words);
  const positions = put("positions", given.positions);
  const x = put("x", given.withPositions ? add(words, positions) : words);
  const heads = given.heads.map((head, h) =>
    workHead(x, head, given, (name, matrix) => put(headMatrix(h, name), matrix)),
  );
  const concat = put("concat", beside(heads.map((head) => head.context)));
  const w_o = given.w_o && put("w_o", given.w_o);
  const output = put("output", w_o ? multiply(concat, w_o) : concat);
  const fits = output[0]?.length === x[0]?.length;
  const block = fits ? workBlock(x, output, given, put) : null;
  return { words, positions, x, heads, concat, w_o, output, block };
}

function workHead(
  x: Matrix,
  head: Projections,
  how: { readonly scaled: boolean; readonly causal: boolean },
  put: (name: keyof WorkedHead, matrix: Matrix) => Matrix,
): WorkedHead {
  const w_q = put("w_q", head.w_q);
  const w_k = put("w_k", head.w_k);
  const w_v = put("w_v", head.w_v);
  const queries = put("queries", multiply(x, w_q));
  const keys = put("keys", multiply(x, w_k));
  const values = put("values", multiply(x, w_v));
  const scores = put("scores", multiply(queries, transpose(keys)));
  const divisor = how.scaled ? Math.sqrt(w_k[0]?.length ?? 1) : 1;
  const scaled = put(
    "scaled",
    map(scores, (score) => score / divisor),
  );
  const hidden = (r: number, c: number) => how.causal && c > r;
  const masked = put(
    "masked",
    map(scaled, (score, r, c) => (hidden(r, c) ? Number.NEGATIVE_INFINITY : score)),
  );
  const weights = put("weights", masked.map(softmax));
  const context = put("context", multiply(weights, values));
  return { w_q, w_k, w_v, queries, keys, values, scores, scaled, masked, weights, context };
}

const EPSILON = 1e-5;

/** Each row with mean 0 and deviation 1. */
export function layerNorm(rows: Matrix): number[][] {
  return rows.map((row) => {
    const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
    const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
    return row.map((value) => (value - mean) / Math.sqrt(variance + EPSILON));
  });
}

function workBlock(
  x: Matrix,
  attention: Matrix,
  given: Given,
  put: (name: string, matrix: Matrix) => Matrix,
): WorkedBlock {
  const w_1 = put("w_1", given.w_1);
  const w_2 = put("w_2", given.w_2);
  const residual = put("residual", add(x, attention));
  const normed = put("normed", layerNorm(residual));
  const hidden = put("hidden", multiply(normed, w_1));
  const activated = put(
    "activated",
    map(hidden, (value) => Math.max(value, 0)),
  );
  const mlp = put("mlp", multiply(activated, w_2));
  const residual_2 = put("residual_2", add(normed, mlp));
  const output = put("block_output", layerNorm(residual_2));
  return { w_1, w_2, residual, normed, hidden, activated, mlp, residual_2, output };
}

/** Matrices of as many rows, side by side. */
export function beside(parts: readonly Matrix[]): number[][] {
  return (parts[0] ?? []).map((_, r) => parts.flatMap((part) => part[r] as number[]));
}
