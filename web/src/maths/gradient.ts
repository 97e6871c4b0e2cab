import { dot, type Matrix, norm, type Vector } from "./matrix";
import { jacobianNorm } from "./softmax";

// What reaches q through the softmax, as tools/page_vectors.py computes it:
//     ∂L/∂q = c · Kᵀ (diag(p) − p pᵀ) g        c = 1, or 1/√d_k where the scores are divided

/** The factor c in front of the Jacobian. */
export function jacobianFactor(d_k: number, scaled: boolean): number {
  return scaled ? 1 / Math.sqrt(d_k) : 1;
}

/** (diag(p) − p pᵀ) g: the gradient at the scores that enter the softmax. */
export function throughSoftmax(weights: Vector, upstream: Vector): number[] {
  // A constant in g changes nothing. Taking g at the largest weight off first keeps what is left
  // of a saturated row, which 1 − p ≈ 0 would round away.
  const peak = weights.indexOf(Math.max(...weights));
  const g = upstream.map((value) => value - (upstream[peak] as number));
  const mean = dot(weights, g);
  return weights.map((p, j) => p * ((g[j] as number) - mean));
}

/** How far a row of weights still answers to its products q·k: c · ‖diag(p) − p pᵀ‖. */
export function answerToProducts(weights: Vector, d_k: number, scaled: boolean): number {
  return jacobianFactor(d_k, scaled) * jacobianNorm(weights);
}

/** The length of each row. */
export function rowNorms(rows: Matrix): number[] {
  return rows.map(norm);
}
