import { type Worked, workOut } from "../../maths/lesson";
import { type Matrix, map } from "../../maths/matrix";
import { Random } from "../../maths/random";
import type { LessonData } from "../data";
import { phrase } from "../language";
import type { LessonState } from "../state";

export type Split = LessonData["splits"][number];

/** Numbers in all projections of a split. */
export function parametersOf(split: Split): number {
  return [...split.heads.flatMap((head) => Object.values(head)), split.w_o].flat(2).length;
}

/** What the heads of a split make of the lesson's x, with every number put in by hand up to it. */
export function workSplit(state: LessonState, split: Pick<Split, "heads" | "w_o">): Worked {
  const given = { ...state.given.value, words: state.worked.value.x, withPositions: false };
  return workOut({ ...given, heads: split.heads, w_o: split.w_o });
}

/** Two heads for a lesson that has one, so that there is something to put side by side. */
export function twoHeads(state: LessonState): Worked | null {
  const { heads, splits } = state.lesson;
  const split = splits.find((one) => one.heads.length === 2);
  return heads.length === 1 && split ? workSplit(state, split) : null;
}

/** Random projections of the input's width, cut into as many heads as the given splits have. */
export function drawnSplits(splits: readonly Split[], seed: number): Split[] {
  const width = splits[0]?.w_o.length ?? 1;
  const random = new Random(seed, width);
  const drawn = () =>
    map(random.matrix(width, width, 1 / Math.sqrt(width)), (value) => Number(value.toFixed(2)));
  const whole = { w_q: drawn(), w_k: drawn(), w_v: drawn() };
  const w_o = drawn();
  return splits.map(({ heads }) => ({
    heads: heads.map((_, h) => {
      const part = (matrix: Matrix) => columnsOf(matrix, h, heads.length);
      return { w_q: part(whole.w_q), w_k: part(whole.w_k), w_v: part(whole.w_v) };
    }),
    w_o,
    words: phrase("origins.drawn"),
  }));
}

/** The columns of one of `count` heads. */
function columnsOf(matrix: Matrix, head: number, count: number): Matrix {
  const share = (matrix[0]?.length ?? 0) / count;
  return matrix.map((row) => row.slice(head * share, (head + 1) * share));
}
