import type { Printed } from "./cells";
import { type Matrix, map, multiply, transpose } from "./matrix";
import { softmax } from "./softmax";

// Numbers known only to their last printed place, as src/regard/learn/grading/bands.py has them.

export const ALLOWED = 1.5; // units: one in the last place off the rounded number, or cut
const ROUNDING = 1e-9; // what float arithmetic may add

/** Numbers between low and high; `value` follows the written ones exactly. */
export interface Band {
  readonly value: Matrix;
  readonly low: Matrix;
  readonly high: Matrix;
}

/** Each part of a band through the same function. */
function each(band: Band, how: (m: Matrix) => Matrix): Band {
  return { value: how(band.value), low: how(band.low), high: how(band.high) };
}

export function exactly(value: Matrix): Band {
  return { value, low: value, high: value };
}

export function turned(band: Band): Band {
  return each(band, transpose);
}

export function combined(a: Matrix, b: Matrix, how: (a: number, b: number) => number): Matrix {
  return map(a, (value, r, c) => how(value, b[r]?.[c] as number));
}

const middle = (band: Band) => combined(band.low, band.high, (low, high) => (low + high) / 2);
const slackOf = (band: Band) => combined(band.low, band.high, (low, high) => (high - low) / 2);

export function timesBand(left: Band, right: Band): Band {
  const [mine, yours] = [middle(left), middle(right)];
  const [mySlack, yourSlack] = [slackOf(left), slackOf(right)];
  const slack = combined(
    multiply(map(mine, Math.abs), yourSlack),
    multiply(
      mySlack,
      combined(yours, yourSlack, (value, loose) => Math.abs(value) + loose),
    ),
    (a, b) => a + b,
  );
  const centre = multiply(mine, yours);
  return {
    value: multiply(left.value, right.value),
    low: combined(centre, slack, (value, loose) => value - loose),
    high: combined(centre, slack, (value, loose) => value + loose),
  };
}

export function scaledBand(band: Band, factor: number): Band {
  return each(band, (m) => map(m, (value) => value * factor));
}

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/** Each number over itself and the others: lowest where it is lowest and they are highest. */
function shares(low: Matrix, high: Matrix): { readonly low: Matrix; readonly high: Matrix } {
  const over = (own: Matrix, others: Matrix) =>
    own.map((row, r) => {
      const all = sumOf(others[r] ?? []);
      return row.map((value, c) => value / (value + (all - (others[r]?.[c] as number))));
    });
  return { low: over(low, high), high: over(high, low) };
}

export function softmaxBand(band: Band): Band {
  const top = band.high.map((row) => Math.max(...row));
  const powers = (m: Matrix) => map(m, (score, r) => Math.exp(score - (top[r] as number)));
  return { value: band.value.map(softmax), ...shares(powers(band.low), powers(band.high)) };
}

export interface Rounding {
  readonly decimals: number;
  readonly cut: boolean;
}

/** Whole where float arithmetic just missed it. */
function snapped(value: number): number {
  const near = Math.round(value);
  return Math.abs(value - near) < 1e-7 ? near : value;
}

/** Written with so many decimals, rounded or cut; a half may be rounded either way. */
export function rounded(band: Band, { decimals, cut }: Rounding): Band {
  const size = 10 ** decimals;
  const up = (value: number) => Math.floor(snapped(snapped(value * size) + 0.5)) / size;
  const down = (value: number) => Math.ceil(snapped(snapped(value * size) - 0.5)) / size;
  if (cut) return each(band, (m) => map(m, (value) => Math.trunc(snapped(value * size)) / size));
  return { value: map(band.value, up), low: map(band.low, down), high: map(band.high, up) };
}

/** The softmax by way of exponentials that were rounded or cut first. */
export function softmaxOfRounded(band: Band, how: Rounding): Band {
  const e = rounded(
    each(band, (m) => map(m, Math.exp)),
    how,
  );
  const value = e.value.map((row) => row.map((power) => power / sumOf(row)));
  return { value, ...shares(e.low, e.high) };
}

/** Where a printed cell is close enough to the band; blank and unknown cells are not. */
export function allows(band: Band, printed: Printed): readonly (readonly boolean[])[] {
  return printed.values.map((row, r) =>
    row.map((value, c) => {
      const size = Math.max(1, Math.abs(band.value[r]?.[c] as number));
      const slack = ALLOWED * (printed.units[r]?.[c] as number) + ROUNDING * size;
      const [low, high] = [band.low[r]?.[c] as number, band.high[r]?.[c] as number];
      return value >= low - slack && value <= high + slack;
    }),
  );
}
