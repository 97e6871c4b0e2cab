import { type Signal, signal } from "@preact/signals";
import type { Written } from "../../maths/grading";
import type { Exercise } from "../data";
import type { LessonState } from "../state";
import { blankFor } from "./exercise";

/** What was written into one exercise. */
export interface Sheet {
  /** The row that is worked out; −1 for all. */
  readonly row: Signal<number>;
  readonly written: Signal<Written>;
  readonly isChecked: Signal<boolean>;
}

const kept = new WeakMap<LessonState, Map<number, Sheet>>();

/** The sheet of an exercise, as it was left: another exercise or step does not clear it. */
export function sheetOf(state: LessonState, exercise: Exercise): Sheet {
  const sheets = kept.get(state) ?? new Map<number, Sheet>();
  kept.set(state, sheets);
  const sheet = sheets.get(exercise.seed) ?? {
    row: signal(0),
    written: signal(blankFor(exercise)),
    isChecked: signal(false),
  };
  sheets.set(exercise.seed, sheet);
  return sheet;
}
