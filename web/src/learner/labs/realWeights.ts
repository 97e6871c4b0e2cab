import { multiply, transpose } from "../../maths/matrix";
import { softmax } from "../../maths/softmax";
import type { RealHead } from "../data";

/** Scores as they are, divided, hidden where causal, and their weights. */
export function realWeights(real: RealHead) {
  const scores = multiply(real.queries, transpose(real.keys));
  const scaled = scores.map((row, i) =>
    row.map((score, j) => (real.causal && j > i ? Number.NEGATIVE_INFINITY : score * real.scale)),
  );
  return { scores, scaled, weights: scaled.map(softmax) };
}

/** The row that was asked for; else the one that shows it best: the largest weight off itself and off the first token. */
export function startRow(real: RealHead): number {
  if (real.row !== undefined) return real.row;
  const { weights } = realWeights(real);
  const best = weights.map((row, i) => Math.max(0, ...row.slice(1, i)));
  return best.indexOf(Math.max(...best));
}
