import { dot, type Vector } from "./matrix";

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
  // Σ_ij (δ p_i − p_i p_j)² = Σ p_i² − 2 Σ p_i³ + (Σ p_i²)²
  const squares = dot(weights, weights);
  const cubes = weights.reduce((sum, p) => sum + p ** 3, 0);
  return Math.sqrt(Math.max(squares - 2 * cubes + squares ** 2, 0));
}
