import { headMatrix, type WorkedBlock, type WorkedHead } from "../../maths/lesson";
import type { Matrix } from "../../maths/matrix";
import { type Sentence, say } from "../language";
import { edit, isEdited, type LessonState } from "../state";
import { dims } from "./spelling";

export type Role = "x" | "q" | "k" | "v" | "score" | "weight" | "output" | "plain";

/** A matrix as it is shown: its numbers, what stands beside and above them, and its colour. */
export interface Sheet {
  /** Its name among the edits. */
  readonly name: string;
  readonly title: string;
  readonly role: Role;
  readonly values: Matrix;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  /** Whether the mask hides that cell, so that there is nothing to change. */
  readonly hides?: (row: number, column: number) => boolean;
}

/** Where changed numbers are written down. */
export interface Book {
  readonly isChanged: (row: number, column: number) => boolean;
  /** undefined puts the computed number back. */
  readonly put: (row: number, column: number, value: number | undefined) => void;
}

export function bookOf(state: LessonState, sheet: Sheet): Book {
  return {
    isChanged: (row, column) => isEdited(state, sheet.name, row, column),
    put: (row, column, value) => edit(state, sheet.name, row, column, value),
  };
}

/** Which number it is, aloud. */
export function cellName(sheet: Sheet, row: number, column: number): string {
  return say("cell.label", {
    matrix: sheet.title,
    row: sheet.rows[row] ?? "",
    column: sheet.columns[column] ?? "",
  });
}

/** Title (a symbol, or a word by its sentence), colour, and the letter of the dimensions down and across; "" stands for the tokens. */
type Look = readonly [
  title: string | { readonly say: Sentence },
  role: Role,
  down: string,
  across: string,
];

const HEAD: Readonly<Record<keyof WorkedHead, Look>> = {
  w_q: ["w_q", "q", "x", "q"],
  w_k: ["w_k", "k", "x", "k"],
  w_v: ["w_v", "v", "x", "v"],
  queries: ["Q", "q", "", "q"],
  keys: ["K", "k", "", "k"],
  values: ["V", "v", "", "v"],
  scores: [{ say: "symbol.scores" }, "score", "", ""],
  scaled: [{ say: "symbol.scaled_scores" }, "score", "", ""],
  masked: [{ say: "symbol.masked_scores" }, "score", "", ""],
  weights: [{ say: "symbol.weights" }, "weight", "", ""],
  context: [{ say: "symbol.output" }, "output", "", "o"],
};

const LAYER = {
  words: [{ say: "symbol.words" }, "x", "", "x"],
  positions: [{ say: "symbol.positions" }, "plain", "", "x"],
  x: ["X", "x", "", "x"],
  concat: ["concat", "plain", "", "c"],
  output: [{ say: "symbol.output" }, "output", "", "o"],
} as const satisfies Readonly<Record<string, Look>>;

const BLOCK: Readonly<Record<keyof WorkedBlock, Look>> = {
  w_1: ["w_1", "plain", "n", "h"],
  w_2: ["w_2", "plain", "h", "m"],
  residual: ["r", "plain", "", "r"],
  normed: ["n", "plain", "", "n"],
  hidden: ["h", "plain", "", "h"],
  activated: ["max(h, 0)", "plain", "", "h"],
  mlp: ["mlp", "plain", "", "m"],
  residual_2: ["r′", "plain", "", "r"],
  output: [{ say: "symbol.hidden_state" }, "output", "", "o"],
};

function sheetOf(state: LessonState, name: string, look: Look, values: Matrix): Sheet {
  const [title, role, down, across] = look;
  const labels = state.lesson.labels;
  return {
    name,
    title: typeof title === "string" ? title : say(title.say),
    role,
    values,
    rows: down ? namesOf(state, name, down, values.length) : labels,
    columns: across ? namesOf(state, name, across, values[0]?.length ?? 0) : labels,
  };
}

/** x1, x2, …; the features by name where x, or what the layer writes back, consists of them. */
function namesOf(state: LessonState, name: string, letter: string, count: number) {
  const { embeddings, options, heads, w_o } = state.lesson;
  const { names } = embeddings;
  const isBack = options.projections === "by-hand" || (options.projections === "identity" && !w_o);
  const isOutput = letter === "o" && (!name.startsWith("h") || heads.length === 1) && isBack;
  const isNamed = names?.length === count && name !== "block_output";
  if (!names || !isNamed || !(letter === "x" || isOutput)) return dims(letter, count);
  return names.map((one) => say(`vectors.${one}` as Sentence));
}

/** A matrix of the head that is spelt out. */
export function headSheet(state: LessonState, name: keyof WorkedHead): Sheet {
  const number = Math.min(state.head.value, state.lesson.heads.length - 1);
  const sheet = sheetOf(state, headMatrix(number, name), HEAD[name], state.worksOn.value[name]);
  const isMasked = (name === "masked" || name === "weights") && state.given.value.causal;
  return isMasked ? { ...sheet, hides: (row, column) => column > row } : sheet;
}

export function layerSheet(state: LessonState, name: keyof typeof LAYER): Sheet {
  return sheetOf(state, name, LAYER[name], state.worked.value[name]);
}

export function outputProjection(state: LessonState, w_o: Matrix): Sheet {
  return sheetOf(state, "w_o", ["w_o", "plain", "c", "o"], w_o);
}

export function blockSheet(state: LessonState, block: WorkedBlock, name: keyof WorkedBlock): Sheet {
  const edited = name === "output" ? "block_output" : name;
  return sheetOf(state, edited, BLOCK[name], block[name]);
}

export function rowOf(sheet: Sheet, row: number): readonly number[] {
  return sheet.values[row] ?? [];
}

export function columnOf(sheet: Sheet, column: number): number[] {
  return sheet.values.map((row) => row[column] as number);
}
