// A long text in pieces: only those on the screen are in the document. A piece's height is
// estimated until it has been measured.

export const CHUNK = 256;
const LETTERS = 4.6; // of a token, where its text is not known yet

export interface Page {
  /** Letters that fit into a line. */
  readonly letters: number;
  /** CSS pixels. */
  readonly line: number;
}

/** CSS pixels that a piece of text will need, about. */
export function estimate(texts: readonly (string | undefined)[], page: Page): number {
  let [lines, letters] = [0, 0];
  for (const text of texts) {
    const breaks = text?.split("\n") ?? [];
    letters += text === undefined ? LETTERS : (breaks[0]?.length ?? 0);
    for (const part of breaks.slice(1)) {
      lines += Math.max(Math.ceil(letters / page.letters), 1);
      letters = part.length;
    }
  }
  return (lines + Math.max(Math.ceil(letters / page.letters), 1)) * page.line;
}

/** Heights of all pieces, and where each begins. */
export class Heights {
  readonly #heights: Float64Array;

  constructor(count: number, guess: number) {
    this.#heights = new Float64Array(count).fill(guess);
  }

  get total(): number {
    return this.top(this.#heights.length);
  }

  top(n: number): number {
    let sum = 0;
    for (let i = 0; i < n && i < this.#heights.length; i += 1) sum += this.#heights[i] as number;
    return sum;
  }

  height(n: number): number {
    return this.#heights[n] ?? 0;
  }

  /** By how much the piece is taller than was thought. */
  set(n: number, height: number): number {
    const change = height - (this.#heights[n] ?? height);
    if (n < this.#heights.length) this.#heights[n] = height;
    return change;
  }

  /** The pieces that a window of the text shows: first, and the one after the last. */
  within(top: number, height: number): readonly [number, number] {
    const count = this.#heights.length;
    let [first, sum] = [0, 0];
    while (first < count - 1 && sum + (this.#heights[first] as number) <= top) {
      sum += this.#heights[first] as number;
      first += 1;
    }
    let stop = first;
    while (stop < count && sum < top + height) {
      sum += this.#heights[stop] as number;
      stop += 1;
    }
    return [first, stop];
  }
}
