import { jacobianFactor, throughSoftmax } from "./gradient";
import type { Projections } from "./lesson";
import { add, dot, type Matrix, map, multiply, transpose, type Vector } from "./matrix";
import { softmax } from "./softmax";

// One head learning by gradient descent. Every token has a target, and the loss is half the
// squared distance of its context from it, averaged over the tokens.

export interface Task {
  readonly x: Matrix; // (tokens, width)
  readonly targets: Matrix; // (tokens, d_v)
  readonly scaled: boolean;
  readonly causal: boolean;
}

/** A pass forwards and back. */
export interface Pass {
  readonly loss: number;
  readonly weights: Matrix;
  readonly context: Matrix;
  /** ∂loss/∂q of every token, times the number of tokens: of a row's own loss. */
  readonly atQueries: Matrix;
  readonly gradients: Projections;
}

export function run(head: Projections, task: Task): Pass {
  const queries = multiply(task.x, head.w_q);
  const keys = multiply(task.x, head.w_k);
  const values = multiply(task.x, head.w_v);
  const factor = jacobianFactor(head.w_k[0]?.length ?? 1, task.scaled);
  const weights = queries.map((query, i) => softmax(keys.map(scoreIn(query, i, factor, task))));
  const context = multiply(weights, values);
  const off = map(context, (value, r, c) => value - (task.targets[r]?.[c] as number));
  const count = task.x.length;
  const atWeights = multiply(off, transpose(values));
  // times the factor: what reaches the raw products q·k
  const atProducts = map(
    weights.map((row, i) => throughSoftmax(row, atWeights[i] as Vector)),
    (value) => value * factor,
  );
  const atQueries = multiply(atProducts, keys);
  const atKeys = multiply(transpose(atProducts), queries);
  const atValues = multiply(transpose(weights), off);
  const gather = (rows: Matrix) => map(multiply(transpose(task.x), rows), (value) => value / count);
  return {
    loss: off.reduce((sum, row) => sum + dot(row, row), 0) / (2 * count),
    weights,
    context,
    atQueries,
    gradients: { w_q: gather(atQueries), w_k: gather(atKeys), w_v: gather(atValues) },
  };
}

function scoreIn(query: Vector, i: number, factor: number, task: Task) {
  return (key: Vector, j: number) =>
    task.causal && j > i ? Number.NEGATIVE_INFINITY : factor * dot(query, key);
}

/** The head after one step downhill; w_v stays unless it learns too. */
export function step(head: Projections, pass: Pass, rate: number, withValues = false): Projections {
  const moved = (w: Matrix, gradient: Matrix) =>
    add(
      w,
      map(gradient, (value) => -rate * value),
    );
  return {
    w_q: moved(head.w_q, pass.gradients.w_q),
    w_k: moved(head.w_k, pass.gradients.w_k),
    w_v: withValues ? moved(head.w_v, pass.gradients.w_v) : head.w_v,
  };
}

/**
 * Each token is asked to fetch another one's value: that of the next (the last one that of the
 * first), and where later tokens are hidden that of the one before.
 */
export function fetchTargets(values: Matrix, causal: boolean): Matrix {
  const count = values.length;
  return values.map((_, i) => values[causal ? Math.max(i - 1, 0) : (i + 1) % count] as Vector);
}
