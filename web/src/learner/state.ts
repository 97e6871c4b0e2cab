import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import {
  cellKey,
  type Edits,
  type Given,
  NO_EDITS,
  type Worked,
  type WorkedHead,
  workOut,
} from "../maths/lesson";
import { editsOf, givenOf, type LessonData } from "./data";

/** The one state of the learner's room: what is given, what was changed, what follows. */
export interface LessonState {
  readonly lesson: LessonData;
  readonly given: Signal<Given>;
  readonly edits: Signal<Edits>;
  readonly worked: ReadonlySignal<Worked>;
  /** Without the edits: what a changed number was. */
  readonly original: ReadonlySignal<Worked>;
  /** The token whose row is spelt out. */
  readonly focus: Signal<number>;
  /** Which head is spelt out. */
  readonly head: Signal<number>;
  readonly worksOn: ReadonlySignal<WorkedHead>;
  /** 1 … 9: eight steps, and the next layer. */
  readonly step: Signal<number>;
  readonly presenting: Signal<boolean>;
  /** How many parts of the step the presenter has shown; at least the first. */
  readonly shown: Signal<number>;
}

export const LAST_STEP = 9;

export function makeState(lesson: LessonData): LessonState {
  const given = signal(givenOf(lesson));
  const edits = signal<Edits>(editsOf(lesson));
  const worked = computed(() => workOut(given.value, edits.value));
  const original = computed(() => workOut(given.value));
  const head = signal(0);
  return {
    lesson,
    given,
    edits,
    worked,
    original,
    focus: signal(lesson.row),
    head,
    worksOn: computed(() => {
      const heads = worked.value.heads;
      return heads[Math.min(head.value, heads.length - 1)] as WorkedHead;
    }),
    step: signal(1),
    presenting: signal(false),
    shown: signal(1),
  };
}

/** Put a number in by hand; undefined puts back what was computed. */
export function edit(
  state: LessonState,
  matrix: string,
  row: number,
  column: number,
  value: number | undefined,
): void {
  const all = new Map(state.edits.value);
  const cells = new Map(all.get(matrix));
  if (value === undefined) cells.delete(cellKey(row, column));
  else cells.set(cellKey(row, column), value);
  if (cells.size) all.set(matrix, cells);
  else all.delete(matrix);
  state.edits.value = all;
}

export function isEdited(state: LessonState, matrix: string, row: number, column: number): boolean {
  return state.edits.value.get(matrix)?.has(cellKey(row, column)) ?? false;
}

export function forgetEdits(state: LessonState): void {
  state.edits.value = NO_EDITS;
}

/** How many numbers were put in by hand. */
export function editCount(state: LessonState): number {
  let count = 0;
  for (const cells of state.edits.value.values()) count += cells.size;
  return count;
}

/** Positions, scaling or the causal mask: on where it was off. */
export function flip(state: LessonState, what: "withPositions" | "scaled" | "causal"): void {
  const given = state.given.value;
  state.given.value = { ...given, [what]: !given[what] };
}

/** To a step 1 … 9; beyond either end nothing happens. */
export function goToStep(state: LessonState, step: number): void {
  if (step < 1 || step > LAST_STEP || step === state.step.value) return;
  state.step.value = step;
  state.shown.value = 1;
}

export function nextToken(state: LessonState): void {
  state.focus.value = (state.focus.value + 1) % state.lesson.tokens.length;
}

export function nextHead(state: LessonState): void {
  state.head.value = (state.head.value + 1) % state.lesson.heads.length;
}

/** Presenter mode on or off; it starts with the first part of the step. */
export function present(state: LessonState, on: boolean): void {
  state.shown.value = 1;
  state.presenting.value = on;
}
