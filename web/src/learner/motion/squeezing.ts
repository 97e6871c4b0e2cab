import { say } from "../language";
import { type Box, between, EDGE, type Grid, middleOf } from "./geometry";
import type { FilmKey, FilmNumbers, FilmRest } from "./numbers";

// Softmax as bars: one for each key as long as its power, then one bar of length 1 for all.

export const STACK_HEIGHT = 22;
const STACK_BELOW = 36; // under the rows: first their sums, then the one bar

export interface Segment {
  readonly label: string;
  /** Where its bar is in its row, and where it is now. */
  readonly own: Box;
  readonly now: Box;
  /** Its place in the one bar. */
  readonly place: Box;
}

/** The keys' bars at `squeezed` of their way: down beside the numbers first, then out to full
 * length. In the one bar a weight w is w × the length of the bar. */
export function segmentsOf(
  numbers: FilmNumbers,
  grid: Grid,
  barsX: number,
  { grown, squeezed }: { readonly grown: number; readonly squeezed: number },
): readonly Segment[] {
  const all = numbers.rest ? [...numbers.keys, numbers.rest] : numbers.keys;
  const room = grid.width - EDGE - barsX;
  const most = Math.max(...all.map((one) => one.power), Number.MIN_VALUE);
  const stack = stackOf(grid);
  const sum = Math.max(
    1,
    all.reduce((total, one) => total + Math.abs(one.weight), 0),
  );
  let before = 0;
  return all.map((one, i) => {
    const share = Math.abs(one.weight) / sum;
    const line = { y: stack.y, height: STACK_HEIGHT };
    const under = { ...line, x: barsX + before * room, width: share * room };
    const place = { ...line, x: stack.x + before * stack.width, width: share * stack.width };
    before += share;
    const own = {
      x: barsX,
      y: middleOf(grid, i) - 9,
      width: (grown * one.power * room) / most,
      height: 18,
    };
    const now =
      squeezed < 0.5 ? between(own, under, 2 * squeezed) : between(under, place, 2 * squeezed - 1);
    return { label: labelOf(one), own, now, place };
  });
}

function labelOf(one: FilmKey | FilmRest): string {
  if ("label" in one) return one.label;
  return say("motion.label_more", { count: one.seen + one.hidden });
}

/** The bar of length 1. */
export function stackOf(grid: Grid): Box {
  return {
    x: EDGE,
    y: grid.bottom + STACK_BELOW,
    width: grid.width - 2 * EDGE,
    height: STACK_HEIGHT,
  };
}
