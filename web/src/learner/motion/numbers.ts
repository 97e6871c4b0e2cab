import type { Worked, WorkedHead } from "../../maths/lesson";
import type { Matrix, Vector } from "../../maths/matrix";
import { rowKeys, shiftOf, sumOf } from "../parts/spelling";
import type { LessonState } from "../state";

// What the film shows: one row of one head, taken from the lesson as the reader has it now.

/** One key with all that the chosen row makes of it. */
export interface FilmKey {
  readonly label: string;
  readonly key: Vector;
  /** q₁k₁, q₂k₂, …: their sum is the score, unless the score was set by hand. */
  readonly products: Vector;
  readonly score: number;
  readonly scaled: number;
  /** −∞ where hidden. */
  readonly masked: number;
  readonly power: number; // e^(masked − shift)
  readonly weight: number;
  readonly value: Vector;
  readonly term: Vector; // weight · value
}

/** The keys that are not drawn one by one. */
export interface FilmRest {
  readonly seen: number;
  readonly hidden: number;
  readonly power: number;
  readonly weight: number;
  readonly term: Vector;
}

export interface FilmNumbers {
  readonly label: string;
  readonly query: Vector;
  readonly keys: readonly FilmKey[];
  readonly rest: FilmRest | null;
  readonly isScaled: boolean;
  readonly isCausal: boolean;
  /** Taken off every score before e^score, where powers would be too large to read. */
  readonly shift: number;
  readonly total: number; // Σ powers, over all keys
  readonly weightSum: number;
  readonly summed: Vector; // Σ weight · value, over all keys
  readonly context: Vector; // the same, unless set by hand
  /** The row of every head. */
  readonly heads: readonly Vector[];
  /** −1 where none of them is spelt out. */
  readonly chosenHead: number;
  readonly concat: Vector;
  readonly w_o: Matrix | null;
  readonly output: Vector;
}

const MOST_KEYS = 12;
const NONE = -1;

/** `joins`: other heads on the same x, to be put side by side instead of the lesson's. */
export function filmNumbers(state: LessonState, joins: Worked | null = null): FilmNumbers {
  const { worked, worksOn, given, focus, head, lesson } = state;
  const row = focus.value;
  const all = joins ?? worked.value;
  const of = (rows: readonly Vector[]) => rows[row] ?? [];
  const own = rowNumbers(worksOn.value, row, lesson.labels);
  return {
    ...own,
    label: lesson.labels[row] ?? "",
    isScaled: given.value.scaled,
    isCausal: given.value.causal,
    heads: all.heads.map((one) => of(one.context)),
    chosenHead: joins ? NONE : Math.min(head.value, all.heads.length - 1),
    concat: of(all.concat),
    w_o: all.w_o,
    output: of(all.output),
  };
}

function rowNumbers(head: WorkedHead, row: number, labels: readonly string[]) {
  const of = (rows: readonly Vector[]) => rows[row] ?? [];
  const [masked, weights, query] = [of(head.masked), of(head.weights), of(head.queries)];
  const shift = shiftOf(masked);
  const at = (values: Vector, j: number) => values[j] ?? 0;
  const keyOf = (j: number): FilmKey => {
    const [key, value, weight] = [head.keys[j] ?? [], head.values[j] ?? [], at(weights, j)];
    return {
      label: labels[j] ?? "",
      key,
      products: query.map((q, d) => q * at(key, d)),
      score: at(of(head.scores), j),
      scaled: at(of(head.scaled), j),
      masked: at(masked, j),
      power: Math.exp(at(masked, j) - shift),
      weight,
      value,
      term: value.map((v) => weight * v),
    };
  };
  const { drawn, seen, hidden } = choose(masked, weights, row);
  const left = [...seen, ...hidden].map(keyOf);
  const keys = drawn.map(keyOf);
  const context = of(head.context);
  const restTerm = added(left, context.length);
  const rest: FilmRest | null = left.length
    ? {
        seen: seen.length,
        hidden: hidden.length,
        power: sumOf(left.map((one) => one.power)),
        weight: sumOf(left.map((one) => one.weight)),
        term: restTerm,
      }
    : null;
  return {
    query,
    keys,
    rest,
    shift,
    total: sumOf(keys.map((one) => one.power)) + (rest?.power ?? 0),
    weightSum: sumOf(weights),
    summed: added(keys, context.length).map((value, d) => value + (restTerm[d] ?? 0)),
    context,
  };
}

/** Which keys are drawn: what the row sees most of, and of the hidden ones the nearest. */
function choose(masked: Vector, weights: Vector, own: number) {
  const { kept, rest, hidden } = rowKeys(masked, weights, own);
  const room = Math.max(MOST_KEYS - kept.length, Math.min(hidden.length, 1));
  return {
    drawn: [...kept, ...hidden.slice(0, room)].sort((i, j) => i - j),
    seen: rest,
    hidden: hidden.slice(room),
  };
}

/** Σ of the keys' terms, one number for each of `width` columns. */
export function added(keys: readonly { readonly term: Vector }[], width: number): Vector {
  return Array.from({ length: width }, (_, d) => sumOf(keys.map((one) => one.term[d] ?? 0)));
}

export function isHidden(key: FilmKey): boolean {
  return key.masked === Number.NEGATIVE_INFINITY;
}

/** Set by hand where it is not what it would follow from. */
export function differs(shown: number, computed: number): boolean {
  return Math.abs(shown - computed) > 1e-9 * Math.max(1, Math.abs(computed));
}
