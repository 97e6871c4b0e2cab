import { EDGE, type Grid, middleOf } from "./geometry";
import type { FilmNumbers } from "./numbers";

// Values flow along ribbons into the output: the height of a ribbon is weight × the height of the
// output's bar, which stands for 1.

export const NODE_WIDTH = 14;
const POINTS = 24;

export interface Ribbon {
  readonly from: { readonly x: number; readonly y: number };
  readonly to: { readonly x: number; readonly y: number };
  readonly thickness: number;
}

export interface Ribbons {
  readonly ribbons: readonly Ribbon[];
  /** The output's bar: its top and its height, which is that of a weight of 1. */
  readonly node: { readonly x: number; readonly y: number; readonly height: number };
}

/** No ribbon is higher than its row, and all ribbons together not higher than the rows. */
export function ribbonsOf(numbers: FilmNumbers, grid: Grid, start: number): Ribbons {
  const all = numbers.rest ? [...numbers.keys, numbers.rest] : numbers.keys;
  const weights = all.map((one) => Math.abs(one.weight));
  const most = Math.max(...weights, 1e-9);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const rows = grid.bottom - grid.top;
  const unit = Math.min((grid.rowHeight - 8) / most, rows / Math.max(sum, 1));
  const height = unit * Math.max(sum, 1);
  const x = grid.width - EDGE - NODE_WIDTH - 4;
  const y = grid.top + (rows - height) / 2;
  let before = 0;
  const ribbons = weights.map((weight, i) => {
    const thickness = weight * unit;
    const to = { x, y: y + before + thickness / 2 };
    before += thickness;
    return { from: { x: start, y: middleOf(grid, i) }, to, thickness };
  });
  return { ribbons, node: { x, y, height } };
}

/** The ribbon's outline as far as `share` of its way. */
export function outline({ from, to, thickness }: Ribbon, share: number): string {
  const upper: string[] = [];
  const lower: string[] = [];
  for (let n = 0; n <= POINTS; n += 1) {
    const u = (share * n) / POINTS;
    const x = from.x + (to.x - from.x) * u;
    const y = from.y + (to.y - from.y) * u * u * (3 - 2 * u);
    upper.push(`${x.toFixed(1)},${(y - thickness / 2).toFixed(2)}`);
    lower.push(`${x.toFixed(1)},${(y + thickness / 2).toFixed(2)}`);
  }
  return [...upper, ...lower.reverse()].join(" ");
}
