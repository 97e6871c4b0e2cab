import { shade } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import type { Scale } from "../../source/answers";

// Numbers over patches as colours and lines.

export type Drawing = "heat" | "contour" | "patches";
export const DRAWINGS: readonly Drawing[] = ["heat", "contour", "patches"];

/** By weight: from 0 to the largest that is shown. */
export function weightScale(weights: ArrayLike<number>, like: Scale): Scale {
  let high = 0;
  for (let n = 0; n < weights.length; n += 1) {
    const one = weights[n] as number;
    if (Number.isFinite(one) && one > high) high = one;
  }
  return { ...like, name: "weight", low: 0, high: high || 1, top: high || 1, log: false };
}

/** rows × columns × RGBA. Heat is fainter where there is less of it; patches are alike. */
export function pixels(
  values: Float32Array,
  scale: Scale,
  drawing: Drawing,
  opacity: number,
): Uint8ClampedArray<ArrayBuffer> {
  const found = new Uint8ClampedArray(4 * values.length);
  values.forEach((value, n) => {
    const share = shareOf(value === Number.POSITIVE_INFINITY ? Number.NaN : value, scale);
    if (Number.isNaN(share)) return;
    const [red, green, blue] = shade(share);
    const alpha = drawing === "heat" ? opacity * (0.2 + 0.8 * share) : opacity;
    found.set([red, green, blue, Math.round(255 * alpha)], 4 * n);
  });
  return found;
}

/** Where lines are drawn: at doublings of uniform, or at fifths of the largest weight. */
export function levelsOf(scale: Scale): number[] {
  const top = scale.top ?? scale.high;
  if (!scale.log) return [1, 2, 3, 4].map((n) => (n * top) / 5);
  return [1, 2, 4, 8, 16, 32, 64].filter((level) => level > scale.low && level < top);
}

export type Segment = readonly [x1: number, y1: number, x2: number, y2: number];

/**
 * The line on which values, which stand at the middles of patches, reach a level: marching squares.
 * In patches from the upper left corner; squares with a hidden corner are left out.
 */
export function contour(
  values: Float32Array,
  rows: number,
  columns: number,
  level: number,
): Segment[] {
  const found: Segment[] = [];
  const at = (row: number, column: number) => values[row * columns + column] as number;
  for (let row = 0; row + 1 < rows; row += 1) {
    for (let column = 0; column + 1 < columns; column += 1) {
      const corners = [
        [0, 0, at(row, column)],
        [1, 0, at(row, column + 1)],
        [1, 1, at(row + 1, column + 1)],
        [0, 1, at(row + 1, column)],
      ] as const;
      if (!corners.every((one) => Number.isFinite(one[2]))) continue;
      const crossings: [number, number][] = [];
      corners.forEach(([x, y, value], n) => {
        const [nextX, nextY, next] = corners[(n + 1) % 4] as (typeof corners)[number];
        if (value >= level === next >= level) return;
        const part = (level - value) / (next - value);
        crossings.push([column + 0.5 + x + part * (nextX - x), row + 0.5 + y + part * (nextY - y)]);
      });
      for (let n = 0; n + 1 < crossings.length; n += 2) {
        const [from, to] = [crossings[n], crossings[n + 1]] as [[number, number], [number, number]];
        found.push([...from, ...to]);
      }
    }
  }
  return found;
}

export interface Heaviest {
  readonly position: number;
  readonly weight: number;
}

/** The position with the most weight; null where none has any. */
export function heaviestOf(weights: ArrayLike<number>): Heaviest | null {
  let best: Heaviest | null = null;
  for (let n = 0; n < weights.length; n += 1) {
    const weight = weights[n] as number;
    if (Number.isFinite(weight) && weight > (best?.weight ?? 0)) best = { position: n, weight };
  }
  return best;
}

/** Σ of what may be seen, from `start` on, `count` of them. */
export function massOf(weights: ArrayLike<number>, start: number, count: number): number {
  let sum = 0;
  for (let n = start; n < start + count; n += 1) {
    const weight = weights[n] as number;
    if (Number.isFinite(weight)) sum += weight;
  }
  return sum;
}
