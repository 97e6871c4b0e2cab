import { type Matrix, map } from "../../maths/matrix";
import { Random } from "../../maths/random";
import type { LessonData } from "../data";

export type Split = LessonData["splits"][number];

/** Numbers in all projections of a split. */
export function parametersOf(split: Split): number {
  return [...split.heads.flatMap((head) => Object.values(head)), split.w_o].flat(2).length;
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
    words: "w_q, w_k, w_v and w_o are random numbers, not learned",
  }));
}

/** The columns of one of `count` heads. */
function columnsOf(matrix: Matrix, head: number, count: number): Matrix {
  const share = (matrix[0]?.length ?? 0) / count;
  return matrix.map((row) => row.slice(head * share, (head + 1) * share));
}
