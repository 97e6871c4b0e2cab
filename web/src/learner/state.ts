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
import { givenOf, type LessonData } from "./data";

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
}

export function makeState(lesson: LessonData): LessonState {
  const given = signal(givenOf(lesson));
  const edits = signal<Edits>(NO_EDITS);
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
