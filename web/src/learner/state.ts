import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
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
import type { Phrase } from "./language";
import { type Asked, askedOf, fitting, isMadeOf, makeLesson, sameAsked } from "./make";

/** The one state of the learner's room: what is given, what was changed, what follows. */
export interface LessonState {
  /** The lesson now; it changes with the sentence. */
  readonly lesson: LessonData;
  /** What was chosen on the page; null where the lesson is as the page came. */
  readonly chosen: ReadonlySignal<Asked | null>;
  /** The same, or what the page came with. */
  readonly asked: ReadonlySignal<Asked>;
  /** Whether it came with vectors or projections that the page's choices do not name. */
  readonly isAsGiven: ReadonlySignal<boolean>;
  /** Another sentence, other vectors or heads. Numbers put in by hand stay with their lesson. */
  readonly change: (asked: Partial<Asked>) => void;
  /** To what an address says; null for the lesson the page came with. A lesson that was left comes
   * back with the numbers that were put in. */
  readonly choose: (asked: Asked | null) => void;
  /** What the last change left behind: how many numbers put in by hand, and the way back to them. */
  readonly left: Signal<{ readonly count: number; readonly undo: () => void } | null>;
  /** What an address asked for and could not be given. */
  readonly ignored: Signal<readonly Phrase[]>;
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
  /** 0 why, 1 … 8 attention, 9 the rest of the block, 10 … 12 what follows. */
  readonly step: Signal<number>;
  readonly presenting: Signal<boolean>;
  /** How many parts of the step the presenter has shown; at least the first. */
  readonly shown: Signal<number>;
}

export const FIRST_STEP = 0;
export const LAST_STEP = 12;

/** What a lesson that was left is come back to with. */
interface Kept {
  readonly edits: Edits;
  readonly focus: number;
  readonly head: number;
}

export function makeState(from: LessonData): LessonState {
  const chosen = signal<Asked | null>(null);
  const lesson = computed(() => (chosen.value ? makeLesson(from, chosen.value) : from));
  const asked = computed(() => chosen.value ?? askedOf(from));
  const given = signal(givenOf(from));
  const edits = signal<Edits>(editsOf(from));
  const worked = computed(() => workOut(given.value, edits.value));
  const original = computed(() => workOut(given.value));
  const focus = signal(from.row);
  const head = signal(from.head ?? 0);
  const isAsGiven = computed(() => !chosen.value && !isMadeOf(from, askedOf(from)));
  const nameOfLesson = () => (isAsGiven.value ? "" : JSON.stringify(asked.value));
  const kept = new Map<string, Kept>();
  const left = signal<{ count: number; undo: () => void } | null>(null);
  const choose = (next: Asked | null) =>
    batch(() => {
      kept.set(nameOfLesson(), { edits: edits.value, focus: focus.value, head: head.value });
      const { withPositions, scaled, causal } = given.value;
      chosen.value = next;
      given.value = { ...givenOf(lesson.value), withPositions, scaled, causal };
      const before = kept.get(nameOfLesson());
      edits.value = before?.edits ?? editsOf(lesson.value);
      focus.value = before?.focus ?? lesson.value.row;
      head.value = before?.head ?? lesson.value.head ?? 0;
      left.value = null;
    });
  const change = (parts: Partial<Asked>) => {
    const next = fitting({ ...asked.value, ...parts });
    if (!next || sameAsked(next, asked.value)) return;
    const [was, count] = [chosen.value, countOf(edits.value)];
    choose(next);
    if (count) left.value = { count, undo: () => choose(was) };
  };
  return {
    get lesson() {
      return lesson.value;
    },
    chosen,
    asked,
    isAsGiven,
    choose,
    change,
    left,
    ignored: signal<readonly Phrase[]>([]),
    given,
    edits,
    worked,
    original,
    focus,
    head,
    worksOn: computed(() => {
      const heads = worked.value.heads;
      return heads[Math.min(head.value, heads.length - 1)] as WorkedHead;
    }),
    step: signal(from.step ?? FIRST_STEP),
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
  return countOf(state.edits.value);
}

function countOf(edits: Edits): number {
  return [...edits.values()].reduce((sum, cells) => sum + cells.size, 0);
}

/** Positions, scaling or the causal mask: on where it was off. */
export function flip(state: LessonState, what: "withPositions" | "scaled" | "causal"): void {
  const given = state.given.value;
  state.given.value = { ...given, [what]: !given[what] };
}

/** To a step; beyond either end nothing happens. */
export function goToStep(state: LessonState, step: number): void {
  if (step < FIRST_STEP || step > LAST_STEP || step === state.step.value) return;
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
