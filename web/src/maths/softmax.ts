import type { Vector } from "./matrix";

const HIDDEN = Number.NEGATIVE_INFINITY;

/** Over the keys. A row that sees no key has no weights, only zeros. */
export function softmax(scores: Vector): number[] {
  const peak = Math.max(...scores);
  if (peak === HIDDEN) return scores.map(() => 0);
  const powers = scores.map((score) => Math.exp(score - peak));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** −Σ p log p in nats; 0 log 0 is 0. */
export function entropy(weights: Vector): number {
  return weights.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
}

/** diag(p) − p pᵀ: how the weights answer to the scores. */
export function jacobian(weights: Vector): number[][] {
  return weights.map((p, i) => weights.map((q, j) => (i === j ? p : 0) - p * q));
}

/** ‖diag(p) − p pᵀ‖ (Frobenius): 0 where the row is saturated, so that nothing is learned. */
export function jacobianNorm(weights: Vector): number {
  let sum = 0;
  for (let i = 0; i < weights.length; i += 1) {
    for (let j = 0; j < weights.length; j += 1) {
      const p = weights[i] as number;
      sum += ((i === j ? p : 0) - p * (weights[j] as number)) ** 2;
    }
  }
  return Math.sqrt(sum);
}
