// Numbers drawn in the page: the same seed gives the same numbers in every browser.

/** Unit-normal numbers from a seed (sfc32, then Box and Muller). */
export class Random {
  #a = 0x9e3779b9;
  #b = 0x243f6a88;
  #c: number;
  #count = 1;
  #spare: number | undefined;

  constructor(...seed: readonly number[]) {
    this.#c = 0xb7e15162;
    for (const part of seed) {
      this.#a = (this.#a ^ part) | 0;
      for (let n = 0; n < 12; n += 1) this.#word(); // mixes a seed's few bits into all of them
    }
  }

  #word(): number {
    const sum = (this.#a + this.#b + this.#count) | 0;
    this.#count = (this.#count + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }

  /** Between 0 and 1, neither of them. */
  uniform(): number {
    return (this.#word() + 0.5) / 2 ** 32;
  }

  /** Mean 0, variance 1. */
  normal(): number {
    if (this.#spare !== undefined) {
      const kept = this.#spare;
      this.#spare = undefined;
      return kept;
    }
    const radius = Math.sqrt(-2 * Math.log(this.uniform()));
    const angle = 2 * Math.PI * this.uniform();
    this.#spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }

  normals(count: number): Float64Array {
    const drawn = new Float64Array(count);
    for (let n = 0; n < count; n += 1) drawn[n] = this.normal();
    return drawn;
  }

  /** (rows, columns) of deviation `spread`. */
  matrix(rows: number, columns: number, spread = 1): number[][] {
    return Array.from({ length: rows }, () =>
      Array.from({ length: columns }, () => spread * this.normal()),
    );
  }
}
