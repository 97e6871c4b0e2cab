import { dot, type Matrix, type Vector } from "./matrix";
import { entropy, softmax } from "./softmax";

// From a hidden state to the next word, as src/regard/learn/lesson/block.py.

/** h · Eᵀ: one logit per word of the vocabulary, E is (words, width). */
export function logitsOf(hidden: Vector, embeddings: Matrix): number[] {
  return embeddings.map((row) => dot(hidden, row));
}

/** softmax(logits / temperature); at 0 the largest has it all, the first of equals. */
export function probabilitiesOf(logits: Vector, temperature: number): number[] {
  if (temperature > 0) return softmax(logits.map((logit) => logit / temperature));
  const best = logits.indexOf(Math.max(...logits));
  return logits.map((_, n) => (n === best ? 1 : 0));
}

/** The indices, the largest number first; equals keep their order. */
export function byLargest(values: Vector): number[] {
  return values.map((_, n) => n).sort((a, b) => (values[b] as number) - (values[a] as number));
}

const EQUAL = 1e-9;

/** How many words share the largest logit. */
export function tiedFirst(logits: Vector): number {
  const most = Math.max(...logits);
  return logits.filter((logit) => most - logit < EQUAL).length;
}

/** Where a number in [0, 1) falls when the shares lie end to end in the order given. */
export interface Fall {
  readonly index: number;
  readonly from: number;
  readonly to: number;
}

export function fallOf(shares: Vector, order: readonly number[], at: number): Fall {
  let from = 0;
  let last: Fall = { index: order[0] ?? 0, from: 0, to: 0 };
  for (const index of order) {
    const share = shares[index] as number;
    if (share <= 0) continue;
    last = { index, from, to: from + share };
    if (at < last.to) return last;
    from = last.to;
  }
  return last; // the sum may end a rounding error below 1
}

/** Which share of a whole vocabulary the kept logits hold; logSum = log Σ e^logit over all. */
export function heldBy(logits: Vector, logSum: number): number {
  return logits.reduce((sum, logit) => sum + Math.exp(logit - logSum), 0);
}

/** e^entropy: as undecided as that many words of equal share. */
export function choicesIn(shares: Vector): number {
  return Math.exp(entropy(shares));
}
