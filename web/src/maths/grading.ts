import { ALLOWED, allows, type Band } from "./bands";
import { type Printed, readCell, readCells } from "./cells";
import { type Matrix, map } from "./matrix";
import { ANSWERS, type Answer, type Task, Working } from "./working";

// Hand calculations, judged as src/regard/learn/grading does: each step is recomputed from the
// step before it as it was written, within one unit of its last printed place, rounded or cut.

export { ANSWERS, type Answer, readCell, readCells, type Task };

/** Cells as they were typed, by step. */
export type Written = Readonly<Record<Answer, readonly (readonly string[])[]>>;

export type Verdict = "blank" | "unreadable" | "right" | "wrong";

export interface StepMark {
  readonly answer: Answer;
  readonly printed: Printed;
  readonly right: Band;
  readonly cells: readonly (readonly Verdict[])[];
}

export interface Mark {
  readonly steps: Readonly<Record<Answer, StepMark>>;
  /** The first step with a wrong cell: what it should be follows from what stands before it. */
  readonly firstWrong: StepMark | undefined;
  readonly filled: number;
  /** Cells with something in them that is no number: never right. */
  readonly unreadable: number;
  readonly cells: number;
}

/** Judge every cell that is filled in. */
export function mark(task: Task, written: Written): Mark {
  const printed = ANSWERS.map((answer) => readCells(written[answer]));
  const working = new Working(task, printed);
  const steps = ANSWERS.map((answer, n) =>
    judge(working, answer, written[answer], printed[n] as Printed),
  );
  const all = steps.flatMap((one) => one.cells.flat());
  return {
    steps: Object.fromEntries(steps.map((one) => [one.answer, one])) as Record<Answer, StepMark>,
    firstWrong: steps.find((one) => one.cells.flat().includes("wrong")),
    filled: all.filter((cell) => cell === "right" || cell === "wrong").length,
    unreadable: all.filter((cell) => cell === "unreadable").length,
    cells: all.length,
  };
}

/** The step by its exact sources or, where it is wrong by them, by the best rounded ones. */
function judge(
  working: Working,
  answer: Answer,
  texts: readonly (readonly string[])[],
  printed: Printed,
): StepMark {
  const exact = working.recompute(answer);
  const given = printed.values.map((row) => row.map((value) => !Number.isNaN(value)));
  const isGood = wrongCells(exact, printed) === 0;
  const right = isGood ? exact : best(working, answer, printed, exact);
  const fits = allows(right, printed);
  const cells = texts.map((row, r) =>
    row.map((text, c): Verdict => {
      if (readCell(text) === null) return "unreadable";
      if (!given[r]?.[c]) return "blank";
      return fits[r]?.[c] ? "right" : "wrong";
    }),
  );
  const judged = { answer, printed, right, cells };
  working.keep(answer, carried(judged), given, printed.units);
  return judged;
}

function wrongCells(right: Band, printed: Printed): number {
  const fits = allows(right, printed);
  return printed.values.flatMap((row, r) =>
    row.filter((value, c) => !Number.isNaN(value) && !fits[r]?.[c]),
  ).length;
}

/** The way with the fewest wrong cells, the exact one first.
 *
 * Another way must give the printed number rounded or cut, not one unit more. That exponentials
 * were rounded takes whole rows to tell: two units in a single cell are a slip. */
function best(working: Working, answer: Answer, printed: Printed, exact: Band): Band {
  const fits = allows(exact, printed);
  const isWhole = printed.values.every(
    (row, r) =>
      row.every((value, c) => Number.isNaN(value) || fits[r]?.[c]) || !row.some(Number.isNaN),
  );
  const spare = (ends: Matrix, sign: 1 | -1) =>
    map(ends, (end, r, c) => end + sign * (ALLOWED - 1) * (printed.units[r]?.[c] as number));
  let found = { band: exact, wrong: wrongCells(exact, printed) };
  for (const way of working.waysTo(answer, isWhole)) {
    const band = { value: exact.value, low: spare(way.low, 1), high: spare(way.high, -1) };
    const wrong = wrongCells(band, printed);
    if (wrong < found.wrong) found = { band, wrong };
  }
  return found.band;
}

/** What the next step may build on: the written number or, where it is right, the unrounded. */
function carried({ printed, right, cells }: StepMark): Band {
  const at = (m: Matrix, r: number, c: number) => m[r]?.[c] as number;
  const isGiven = (r: number, c: number) => !Number.isNaN(at(printed.values, r, c));
  const edge = (end: Matrix, sign: 1 | -1, r: number, c: number) => {
    if (!isGiven(r, c)) return at(end, r, c);
    const value = at(printed.values, r, c);
    const far = value + sign * ALLOWED * at(printed.units, r, c);
    if (cells[r]?.[c] !== "right") return far;
    return sign < 0
      ? Math.min(value, Math.max(at(end, r, c), far))
      : Math.max(value, Math.min(at(end, r, c), far));
  };
  return {
    value: map(right.value, (value, r, c) => (isGiven(r, c) ? at(printed.values, r, c) : value)),
    low: map(right.low, (_, r, c) => edge(right.low, -1, r, c)),
    high: map(right.high, (_, r, c) => edge(right.high, 1, r, c)),
  };
}
