import type { CarriedSight } from "./carried";

/** Weights of the rows that a page carries, row by row, only what each may see. */
export class Rows {
  readonly #sight: CarriedSight;
  readonly #weights: Float32Array;
  /** By the place of a row among the carried ones: its first run, and its first weight. */
  readonly #runs: Int32Array;
  readonly #starts: Int32Array;
  readonly #places: ReadonlyMap<number, number> | null;

  constructor(sight: CarriedSight, weights: Float32Array) {
    const count = sight.rows?.length ?? (sight.span ? sight.span[1] - sight.span[0] : 0);
    this.#sight = sight;
    this.#weights = weights;
    this.#runs = new Int32Array(count + 1);
    this.#starts = new Int32Array(count + 1);
    this.#places = sight.rows ? new Map(sight.rows.map((row, place) => [row, place])) : null;
    for (let place = 0; place < count; place += 1) this.#measure(place);
  }

  #measure(place: number): void {
    const first = this.#runs[place] as number;
    const last = first + (this.#sight.counts?.[place] ?? 1);
    let seen = 0;
    for (let run = first; run < last; run += 1) seen += this.#edge(run, 1) - this.#edge(run, 0);
    this.#runs[place + 1] = last;
    this.#starts[place + 1] = (this.#starts[place] as number) + seen;
  }

  #edge(run: number, side: 0 | 1): number {
    return this.#sight.edges[2 * run + side] as number;
  }

  #place(row: number): number {
    if (this.#places) return this.#places.get(row) ?? -1;
    const [start, stop] = this.#sight.span ?? [0, 0];
    return row >= start && row < stop ? row - start : -1;
  }

  has(row: number): boolean {
    return this.#place(row) >= 0;
  }

  /** How many keys a carried row may see. */
  visible(row: number): number {
    const place = this.#place(row);
    return (this.#starts[place + 1] as number) - (this.#starts[place] as number);
  }

  /** Call with each stretch of neighbouring keys, start ≤ key < stop, that a carried row may see,
   * and where its weights lie: the weight of `key` is `weights[offset + key]`. */
  each(
    row: number,
    start: number,
    stop: number,
    take: (from: number, to: number, weights: Float32Array, offset: number) => void,
  ): void {
    const place = this.#place(row);
    let at = this.#starts[place] as number;
    for (let run = this.#runs[place] as number; run < (this.#runs[place + 1] as number); run += 1) {
      const [low, high] = [this.#edge(run, 0), this.#edge(run, 1)];
      const [from, to] = [Math.max(low, start), Math.min(high, stop)];
      if (from < to) take(from, to, this.#weights, at - low);
      at += high - low;
    }
  }

  /** Weights of keys start ≤ key < stop; NaN where the row may not look, ∞ for what is no number. */
  fill(row: number, start: number, stop: number, into: Float32Array): void {
    into.fill(Number.NaN);
    this.each(row, start, stop, (from, to, weights, offset) => {
      for (let key = from; key < to; key += 1) {
        const weight = weights[offset + key] as number;
        into[key - start] = Number.isNaN(weight) ? Number.POSITIVE_INFINITY : weight;
      }
    });
  }
}
