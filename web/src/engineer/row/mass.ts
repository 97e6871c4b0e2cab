import { isBroken } from "../../source/binary";

// How a row's weight is spread over its keys.

export interface Mass {
  /** Weights that may be seen, heaviest first. */
  readonly sorted: Float32Array;
  /** sums[n]: what the n + 1 heaviest keys hold together. */
  readonly sums: Float64Array;
  readonly total: number;
  /** −Σ p log p in nats. */
  readonly entropy: number;
  /** How many of the weights that may be seen are no numbers. */
  readonly broken: number;
}

/** NaN is a key that the row may not see, ∞ one whose weight is no number. */
export function massOf(weights: Float32Array): Mass {
  const sorted = weights.filter(Number.isFinite).sort().reverse();
  const broken = weights.filter(isBroken).length;
  const sums = new Float64Array(sorted.length);
  let [total, entropy] = [0, 0];
  sorted.forEach((weight, n) => {
    total += weight;
    sums[n] = total;
    if (weight > 0) entropy -= weight * Math.log(weight);
  });
  return { sorted, sums, total, entropy: entropy + 0, broken };
}

/** How many of the heaviest keys hold that share of the row's weight; 0 for an empty row. */
export function keysHolding(mass: Mass, share: number): number {
  const goal = mass.total * share;
  let [low, high] = [0, mass.sums.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((mass.sums[middle] as number) >= goal) high = middle;
    else low = middle + 1;
  }
  return mass.total > 0 ? Math.min(low + 1, mass.sums.length) : 0;
}

export interface Heavy {
  readonly key: number;
  readonly weight: number;
}

/** The keys that the row may see: the first, and the one after the last. */
export function seenSpan(weights: Float32Array): readonly [number, number] {
  const first = weights.findIndex((weight) => !Number.isNaN(weight));
  const last = weights.findLastIndex((weight) => !Number.isNaN(weight));
  return first < 0 ? [0, 0] : [first, last + 1];
}
