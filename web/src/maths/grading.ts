import { type Matrix, map, multiply, transpose } from "./matrix";
import { softmax } from "./softmax";

// Hand calculations, judged as src/regard/learn/grading does: each step is recomputed from the
// step before it as it was written, within one unit of its last printed place, rounded or cut.

export const ANSWERS = ["Q", "K", "V", "scores", "scaled", "weights", "output"] as const;
export type Answer = (typeof ANSWERS)[number];

const ALLOWED = 1.5; // units: one in the last place away from the correctly rounded number, or cut
const ROUNDING = 1e-9; // what float arithmetic may add

/** Cells as they were typed, by step. */
export type Written = Readonly<Record<Answer, readonly (readonly string[])[]>>;

export interface Task {
  readonly x: Matrix;
  readonly w_q: Matrix;
  readonly w_k: Matrix;
  readonly w_v: Matrix;
}

/** NaN where a cell is blank; a unit of 0 is an exact number. */
export interface Printed {
  readonly values: Matrix;
  readonly units: Matrix;
}

/** Numbers between low and high; `value` follows the written ones exactly. */
export interface Band {
  readonly value: Matrix;
  readonly low: Matrix;
  readonly high: Matrix;
}

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
  readonly cells: number;
}

const NUMBER = /^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?\d+ ?\/ ?\d+)$/;
const BLANK = /^[\s?_\-–—.…]*$/;

/** The number a cell holds and its unit in the last place (NaN for a whole number). */
export function readCell(text: string): { readonly value: number; readonly unit: number } | null {
  const bare = text.replaceAll("−", "-").trim();
  if (BLANK.test(bare)) return { value: Number.NaN, unit: 0 };
  if (!NUMBER.test(bare)) return null;
  const [top, bottom] = bare.split("/") as [string, string | undefined];
  const value = Number(top) / (bottom === undefined ? 1 : Number(bottom));
  if (!Number.isFinite(value)) return null;
  return { value, unit: bottom === undefined ? unitOf(bare) : 0 };
}

function unitOf(text: string): number {
  const [mantissa, exponent] = text.toLowerCase().split("e") as [string, string | undefined];
  if (!mantissa.includes(".") && exponent === undefined) return Number.NaN;
  const decimals = mantissa.split(".")[1]?.length ?? 0;
  return 10 ** Math.min(Math.max(Number(exponent ?? 0) - decimals, -300), 300);
}

export function readCells(texts: readonly (readonly string[])[]): Printed {
  const cells = texts.map((row) => row.map(readCell));
  const values = cells.map((row) => row.map((cell) => cell?.value ?? Number.NaN));
  const units = cells.map((row) => row.map((cell) => cell?.unit ?? 0));
  return { values, units: wholeNumbers(units) };
}

/** A whole number is as fine as the decimals of its row, else of its matrix; else exact. */
function wholeNumbers(units: Matrix): Matrix {
  const finest = (row: readonly number[]) =>
    Math.min(...row.map((unit) => (unit > 0 ? unit : Number.POSITIVE_INFINITY)));
  const ofAll = Math.min(...units.map(finest));
  return units.map((row) => {
    const own = Number.isFinite(finest(row)) ? finest(row) : ofAll;
    return row.map((unit) => (Number.isNaN(unit) ? (Number.isFinite(own) ? own : 0) : unit));
  });
}

function exactly(value: Matrix): Band {
  return { value, low: value, high: value };
}

function turned(band: Band): Band {
  return {
    value: transpose(band.value),
    low: transpose(band.low),
    high: transpose(band.high),
  };
}

const middle = (band: Band) => combined(band.low, band.high, (low, high) => (low + high) / 2);
const slackOf = (band: Band) => combined(band.low, band.high, (low, high) => (high - low) / 2);

function combined(a: Matrix, b: Matrix, how: (a: number, b: number) => number): Matrix {
  return map(a, (value, r, c) => how(value, b[r]?.[c] as number));
}

function timesBand(left: Band, right: Band): Band {
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

function scaledBand(band: Band, factor: number): Band {
  const times = (m: Matrix) => map(m, (value) => value * factor);
  return { value: times(band.value), low: times(band.low), high: times(band.high) };
}

/** A weight is lowest where its own score is lowest and all others are highest. */
function softmaxBand(band: Band): Band {
  const rows = band.value.map((_, r) => {
    const top = Math.max(...(band.high[r] as number[]));
    const low = (band.low[r] as number[]).map((score) => Math.exp(score - top));
    const high = (band.high[r] as number[]).map((score) => Math.exp(score - top));
    const all = (powers: number[]) => powers.reduce((sum, power) => sum + power, 0);
    const [allLow, allHigh] = [all(low), all(high)];
    return {
      low: low.map((own, c) => own / (own + (allHigh - (high[c] as number)))),
      high: high.map((own, c) => own / (own + (allLow - (low[c] as number)))),
    };
  });
  return {
    value: band.value.map(softmax),
    low: rows.map((row) => row.low),
    high: rows.map((row) => row.high),
  };
}

/** Judge every cell that is filled in. */
export function mark(task: Task, written: Written): Mark {
  const known = new Map<Answer, Band>();
  const of = (answer: Answer) => known.get(answer) as Band;
  const root = 1 / Math.sqrt(task.w_k[0]?.length ?? 1);
  const x = exactly(task.x);
  const recompute: Readonly<Record<Answer, () => Band>> = {
    Q: () => timesBand(x, exactly(task.w_q)),
    K: () => timesBand(x, exactly(task.w_k)),
    V: () => timesBand(x, exactly(task.w_v)),
    scores: () => timesBand(of("Q"), turned(of("K"))),
    scaled: () => scaledBand(of("scores"), root),
    weights: () => softmaxBand(of("scaled")),
    output: () => timesBand(of("weights"), of("V")),
  };
  const steps = ANSWERS.map((answer) => {
    const judged = judge(answer, written[answer], recompute[answer]());
    known.set(answer, carried(judged));
    return judged;
  });
  const all = steps.flatMap((one) => one.cells.flat());
  return {
    steps: Object.fromEntries(steps.map((one) => [one.answer, one])) as Record<Answer, StepMark>,
    firstWrong: steps.find((one) => one.cells.flat().includes("wrong")),
    filled: all.filter((cell) => cell === "right" || cell === "wrong").length,
    cells: all.length,
  };
}

function judge(answer: Answer, texts: readonly (readonly string[])[], right: Band): StepMark {
  const printed = readCells(texts);
  const cells = texts.map((row, r) =>
    row.map((text, c): Verdict => {
      if (readCell(text) === null) return "unreadable";
      const value = printed.values[r]?.[c] as number;
      if (Number.isNaN(value)) return "blank";
      return allows(right, r, c, value, printed.units[r]?.[c] as number) ? "right" : "wrong";
    }),
  );
  return { answer, printed, right, cells };
}

function allows(band: Band, r: number, c: number, value: number, unit: number): boolean {
  const size = Math.max(1, Math.abs(band.value[r]?.[c] as number));
  const slack = ALLOWED * unit + ROUNDING * size;
  return (
    value >= (band.low[r]?.[c] as number) - slack && value <= (band.high[r]?.[c] as number) + slack
  );
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
