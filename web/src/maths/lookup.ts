import type { Vector } from "./matrix";
import { softmax } from "./softmax";

/** softmax(β · scores): an even mean at 0, the largest score alone at ∞, where ties share. */
export function lookup(scores: Vector, sharpness: number): number[] {
  if (Number.isFinite(sharpness)) return softmax(scores.map((score) => scaled(score, sharpness)));
  const largest = Math.max(...scores);
  const first = scores.map((score) => (score === largest ? 1 : 0));
  const ties = first.filter((one) => one === 1).length;
  return first.map((one) => one / ties);
}

/** A hidden key stays hidden at every sharpness: 0 · −∞ would be no number. */
function scaled(score: number, sharpness: number): number {
  return score === Number.NEGATIVE_INFINITY ? score : sharpness * score;
}
