import { jacobianFactor } from "./gradient";
import { Random } from "./random";

// The scaling lab: q and k are drawn fresh at each d_k with unit variance, g = ∂L/∂weights too; what
// reaches q is measured per row. One norm over all rows would hide that most vanish while few explode.

export const DEAD = 1e-3;
export const KEYS = 16;
export const ROWS = 512;
export const D_KS: readonly number[] = Array.from({ length: 11 }, (_, n) => 2 ** n);

/** One d_k, with or without the division. */
export interface Side {
  readonly variance: number; // of the scores that enter the softmax
  readonly largestWeight: number; // median over the rows
  readonly entropy: number; // mean over the rows, nats
  readonly gradientMedian: number;
  readonly gradientP99: number;
  readonly dead: number; // share of rows whose gradient is below DEAD
}

/** One d_k, both ways, from the same q and k. */
export interface Reading {
  readonly d_k: number;
  readonly raw: Side;
  readonly scaled: Side;
}

/** Both ways at one d_k. A d_k reads the same whichever others are measured with it. */
export function readScaling(d_k: number, seed: number, rows = ROWS, keys = KEYS): Reading {
  const steps = scalingSteps(d_k, seed, rows, keys);
  for (;;) {
    const next = steps.next();
    if (next.done) return next.value;
  }
}

/** The same in pieces of a millisecond or less, for a page that must answer in between. */
export function* scalingSteps(
  d_k: number,
  seed: number,
  rows = ROWS,
  keys = KEYS,
): Generator<undefined, Reading> {
  const random = new Random(seed, d_k);
  const raw = new Tally();
  const scaled = new Tally();
  for (let drawn = 0; drawn < rows; drawn += keys) {
    const queries = random.normals(keys * d_k);
    const keyed = random.normals(keys * d_k);
    for (let row = 0; row < keys; row += 1) {
      const scores = products(queries.subarray(row * d_k, (row + 1) * d_k), keyed, keys);
      const upstream = random.normals(keys);
      raw.add(scores, upstream, keyed, 1);
      scaled.add(scores, upstream, keyed, jacobianFactor(d_k, true));
      yield;
    }
  }
  return { d_k, raw: raw.side(rows), scaled: scaled.side(rows) };
}

function products(query: Float64Array, keyed: Float64Array, keys: number): Float64Array {
  const d_k = query.length;
  return Float64Array.from({ length: keys }, (_, j) => {
    let sum = 0;
    for (let c = 0; c < d_k; c += 1) sum += (query[c] as number) * (keyed[j * d_k + c] as number);
    return sum;
  });
}

/** What is said about one row of the lab. */
export interface RowReading {
  readonly mean: number;
  readonly square: number;
  readonly largest: number;
  readonly entropy: number;
  readonly gradient: number; // ‖∂L/∂q‖
}

/** One row: scores as they come out of q·k, `keyed` the keys one after the other. */
export function readRow(
  products: Float64Array,
  upstream: Float64Array,
  keyed: Float64Array,
  factor: number,
): RowReading {
  const count = products.length;
  const x = products.map((score) => score * factor);
  const peak = x.indexOf(Math.max(...x));
  const powers = x.map((score) => Math.exp(score - (x[peak] as number)));
  const total = sumOf(powers);
  const logTotal = Math.log(total);
  const g = upstream.map((value) => value - (upstream[peak] as number));
  let mean = 0;
  let entropy = 0;
  for (let j = 0; j < count; j += 1) {
    const p = (powers[j] as number) / total;
    mean += p * (g[j] as number);
    entropy -= p * ((x[j] as number) - (x[peak] as number) - logTotal);
  }
  const atScores = powers.map((power, j) => (power / total) * ((g[j] as number) - mean));
  return {
    mean: sumOf(x) / count,
    square: x.reduce((sum, score) => sum + score * score, 0) / count,
    largest: (powers[peak] as number) / total,
    entropy,
    gradient: factor * mixedLength(atScores, keyed),
  };
}

/** ‖Σ_j share_j · key_j‖ */
function mixedLength(shares: Float64Array, keyed: Float64Array): number {
  const d_k = keyed.length / shares.length;
  const mixed = new Float64Array(d_k);
  shares.forEach((share, j) => {
    const start = j * d_k;
    for (let c = 0; c < d_k; c += 1) {
      mixed[c] = (mixed[c] as number) + share * (keyed[start + c] as number);
    }
  });
  return Math.sqrt(mixed.reduce((sum, value) => sum + value * value, 0));
}

class Tally {
  readonly #rows: RowReading[] = [];

  add(scores: Float64Array, upstream: Float64Array, keyed: Float64Array, factor: number): void {
    this.#rows.push(readRow(scores, upstream, keyed, factor));
  }

  side(count: number): Side {
    const rows = this.#rows.slice(0, count);
    const of = (name: keyof RowReading) => rows.map((row) => row[name]);
    const mean = (name: keyof RowReading) => sumOf(of(name)) / rows.length;
    const gradient = of("gradient");
    return {
      variance: mean("square") - mean("mean") ** 2,
      largestWeight: quantile(of("largest"), 0.5),
      entropy: mean("entropy"),
      gradientMedian: quantile(gradient, 0.5),
      gradientP99: quantile(gradient, 0.99),
      dead: gradient.filter((length) => length < DEAD).length / rows.length,
    };
  }
}

function sumOf(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}

/** As numpy's: between two values where the share falls between them. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  const below = sorted[low] as number;
  const above = sorted[Math.min(low + 1, sorted.length - 1)] as number;
  return below + (above - below) * (at - low);
}
