import { ANSWERS, type Answer, type Mark, type Task, type Written } from "../../maths/grading";
import type { Projections } from "../../maths/lesson";
import type { Exercise } from "../data";
import { say } from "../language";

// An exercise as a form: which cells there are, and what is said about those that are filled in.

export function taskOf(exercise: Exercise): Task {
  const head = exercise.heads[0] as Projections;
  return { x: exercise.x, ...head };
}

/** How a step is worked out. */
export function howTo(answer: Answer): string {
  if (answer === "scores") return "Q @ Kᵀ";
  if (answer === "scaled") return `${say("symbol.scores")} ÷ √d_k`;
  if (answer === "weights") return say("exercise.softmax_rows");
  if (answer === "output") return `${say("symbol.weights")} @ V`;
  return `x @ w_${answer.toLowerCase()}`;
}

/** What a step is called: its letter, or its word. */
export function nameOf(answer: Answer): string {
  if (answer === "Q" || answer === "K" || answer === "V") return answer;
  return say(`symbol.${answer}`);
}

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
      : say("exercise.dimension", { name: exercise.tokens[row] ?? "", dimension: name ?? "" }),
    given: written[step.answer][row]?.[column] ?? "",
    right: step.right.value[row]?.[column] as number,
  };
}

/** What is said where no cell is wrong; a cell that could not be read is never right. */
export function resultOf(found: Mark): { readonly verdict: string; readonly words: string } {
  const soFar = say("exercise.so_far", { count: found.filled });
  if (found.unreadable > 0) {
    const words = say("exercise.unreadable", { count: found.unreadable });
    return { verdict: "unreadable", words: `${words} ${soFar}` };
  }
  if (found.filled === 0) return { verdict: "blank", words: say("exercise.blank") };
  const isAll = found.filled === found.cells;
  return { verdict: "right", words: isAll ? `${soFar} ${say("exercise.all")}` : soFar };
}
