import { ANSWERS, type Answer, type Mark, type Task, type Written } from "../../maths/grading";
import type { Projections } from "../../maths/lesson";
import type { Exercise } from "../data";

// An exercise as a form: which cells there are, and what is said about those that are filled in.

export function taskOf(exercise: Exercise): Task {
  const head = exercise.heads[0] as Projections;
  return { x: exercise.x, ...head };
}

export const HOW: Readonly<Record<Answer, string>> = {
  Q: "x @ w_q",
  K: "x @ w_k",
  V: "x @ w_v",
  scores: "Q @ Kᵀ",
  scaled: "scores ÷ √d_k",
  weights: "softmax along each row",
  output: "weights @ V",
};

export const ROLE: Readonly<Record<Answer, string>> = {
  Q: "q",
  K: "k",
  V: "v",
  scores: "",
  scaled: "",
  weights: "weight",
  output: "",
};

/** How many columns each step has. */
function widths(exercise: Exercise): Readonly<Record<Answer, number>> {
  const task = taskOf(exercise);
  const [d_k, d_v] = [task.w_k[0]?.length ?? 1, task.w_v[0]?.length ?? 1];
  const tokens = exercise.tokens.length;
  return { Q: d_k, K: d_k, V: d_v, scores: tokens, scaled: tokens, weights: tokens, output: d_v };
}

/** Every cell open. */
export function blankFor(exercise: Exercise): Written {
  const wide = widths(exercise);
  return Object.fromEntries(
    ANSWERS.map((answer) => [
      answer,
      exercise.tokens.map(() => new Array<string>(wide[answer]).fill("")),
    ]),
  ) as unknown as Written;
}

/** The same with one cell changed. */
export function withCell(
  written: Written,
  answer: Answer,
  row: number,
  column: number,
  text: string,
): Written {
  const rows = written[answer].map((cells, r) =>
    r === row ? cells.map((cell, c) => (c === column ? text : cell)) : cells,
  );
  return { ...written, [answer]: rows };
}

/** Columns are tokens where keys are meant, and numbered dimensions elsewhere. */
export function columnNames(exercise: Exercise, answer: Answer): readonly string[] {
  if (answer === "scores" || answer === "scaled" || answer === "weights") return exercise.tokens;
  return Array.from({ length: widths(exercise)[answer] }, (_, n) => String(n + 1));
}

/** One row needs all keys and values, and only its own query, scores, weights and output. */
export function rowsShown(exercise: Exercise, answer: Answer, row: number | "all"): number[] {
  const all = exercise.tokens.map((_, r) => r);
  return row === "all" || answer === "K" || answer === "V" ? all : [row];
}

export interface FirstWrong {
  readonly answer: Answer;
  readonly place: string;
  /** As it was typed. */
  readonly given: string;
  readonly right: number;
}

/** The first wrong cell of the first wrong step, and what follows from the numbers before it. */
export function firstWrong(
  exercise: Exercise,
  written: Written,
  found: Mark,
): FirstWrong | undefined {
  const step = found.firstWrong;
  if (!step) return undefined;
  const row = step.cells.findIndex((cells) => cells.includes("wrong"));
  const column = step.cells[row]?.indexOf("wrong") ?? 0;
  const name = columnNames(exercise, step.answer)[column];
  const byToken = exercise.tokens.includes(name ?? "");
  return {
    answer: step.answer,
    place: byToken
      ? `${exercise.tokens[row]} → ${name}`
      : `${exercise.tokens[row]}, dimension ${name}`,
    given: written[step.answer][row]?.[column] ?? "",
    right: step.right.value[row]?.[column] as number,
  };
}

/** What is said where no cell is wrong; a cell that could not be read is never right. */
export function resultOf(found: Mark): { readonly verdict: string; readonly words: string } {
  const cells = (count: number) => `${count} cell${count === 1 ? "" : "s"}`;
  const soFar = `Right so far: ${cells(found.filled)}.`;
  if (found.unreadable > 0) {
    const words = `${cells(found.unreadable)} could not be read: write 0.42, 3, 1/2 or 42 %.`;
    return { verdict: "unreadable", words: `${words} ${soFar}` };
  }
  if (found.filled === 0) return { verdict: "blank", words: "Nothing is filled in yet." };
  const all = found.filled === found.cells ? " All of it." : "";
  return { verdict: "right", words: soFar + all };
}
