import type { Projections } from "./lesson";
import { rawWords } from "./pcg64";
import { sha256 } from "./sha256";

// Numbers that are made up, the same as in src/regard/learn/lesson: numbers.py, projections.py.

export type Seed = readonly (bigint | number)[];

/** Numbers of mean 0 and deviation `spread`, rounded so that they can be worked by hand. */
export function draws(seed: Seed, count: number, spread = 1, decimals = 2): number[] {
  const ten = 10 ** decimals;
  return rawWords(seed, count).map((word) => {
    const unit = Number(word >> 11n) * 2 ** -53;
    return rounded((2 * unit - 1) * Math.sqrt(3) * spread * ten) / ten + 0;
  });
}

/** To the nearest whole number; a half to the even one, as numpy does. */
function rounded(value: number): number {
  const down = Math.floor(value);
  const over = value - down;
  if (over !== 0.5) return over < 0.5 ? down : down + 1;
  return down % 2 === 0 ? down : down + 1;
}

export function drawnMatrix(seed: Seed, rows: number, columns: number, spread: number): number[][] {
  const all = draws(seed, rows * columns, spread);
  return Array.from({ length: rows }, (_, r) => all.slice(r * columns, (r + 1) * columns));
}

/** The seed of a word: the same whatever its case and however its accents are encoded. */
export function seedOf(word: string): bigint {
  const [high = 0, low = 0] = sha256(word.toLowerCase().normalize("NFC"));
  return (BigInt(high) << 32n) | BigInt(low);
}

/** A vector drawn from a hash of the word: always the same, and without any meaning. */
export function madeUp(word: string, width: number): number[] {
  return draws([seedOf(word)], width, 1, 1);
}

export interface Sizes {
  readonly width: number;
  readonly heads: number;
  readonly d_k: number;
  readonly d_v: number;
}

/** Numbers of deviation 1/√rows: w_q, w_k and w_v of every head, and w_o. */
export function randomProjections({ width, heads, d_k, d_v }: Sizes, seed: bigint | number) {
  const draw = (head: number, which: number, rows: number, columns: number) =>
    drawnMatrix([seed, head + 1, which], rows, columns, rows ** -0.5);
  return {
    heads: Array.from(
      { length: heads },
      (_, h): Projections => ({
        w_q: draw(h, 1, width, d_k),
        w_k: draw(h, 2, width, d_k),
        w_v: draw(h, 3, width, d_v),
      }),
    ),
    w_o: draw(0, 4, heads * d_v, width),
  };
}
