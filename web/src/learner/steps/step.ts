import type { FunctionComponent } from "preact";
import type { LessonState } from "../state";

export type Part = FunctionComponent<{ readonly state: LessonState }>;

/** A step on the stage: its formula, and its parts in the order a presenter shows them. */
export interface Step {
  readonly formula: FunctionComponent;
  /** It shows another text than the lesson's sentence. */
  readonly hasOwnText?: boolean;
  /** It decides itself which row it shows. */
  readonly hasOwnRow?: boolean;
  readonly parts: (state: LessonState) => readonly Part[];
}
