import { type Given, workOut } from "./lesson";
import type { Matrix, Vector } from "./matrix";

/** The rows with two of them exchanged. */
export function exchanged<T>(rows: readonly T[], a: number, b: number): T[] {
  return rows.map((row, n) => (n === a ? rows[b] : n === b ? rows[a] : row) as T);
}

export interface OrderTrial {
  /** Output of each word, in the order of the sentence. */
  readonly before: Matrix;
  /** … of the same words after two of them changed places. */
  readonly after: Matrix;
  /** The largest change of any number, per word. */
  readonly changes: Vector;
}

/** The lesson with two words exchanged: what each word gets, whichever place it has now. The mask
 * is left out: it tells places apart by itself. */
export function exchangeTrial(given: Given, a: number, b: number, positions: boolean): OrderTrial {
  const how = { ...given, withPositions: positions, causal: false };
  const before = workOut(how).output;
  const moved = workOut({ ...how, words: exchanged(given.words, a, b) }).output;
  const after = exchanged(moved, a, b); // back to the words' own order
  const changes = before.map((row, r) =>
    Math.max(...row.map((value, c) => Math.abs(value - (after[r]?.[c] as number)))),
  );
  return { before, after, changes };
}
