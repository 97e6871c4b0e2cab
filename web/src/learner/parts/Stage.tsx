import { Notice } from "../../parts/Notice";
import type { LessonState } from "../state";
import type { Step } from "../steps/step";
import { STEPS } from "../steps/steps";
import { type StepWords, WORDS } from "../steps/words";
import { listed } from "./spelling";

export function stepOf(state: LessonState): { readonly step: Step; readonly words: StepWords } {
  const at = state.step.value - 1;
  return { step: STEPS[at] as Step, words: WORDS[at] as StepWords };
}

/** Number, title and formula of the step. */
export function StageHead({ state }: { state: LessonState }) {
  const { step, words } = stepOf(state);
  const FormulaOfStep = step.formula;
  return (
    <div class="learn-stage-head">
      <h2 data-part="step-title">
        <span class="learn-number">{state.step.value}</span> {words.title}
      </h2>
      <FormulaOfStep />
    </div>
  );
}

/** The parts of the step, the first `most` of them. */
export function Parts({ state, most }: { state: LessonState; most: number }) {
  const { step } = stepOf(state);
  return (
    <>
      {step
        .parts(state)
        .slice(0, most)
        .map((Part, n) => (
          <div key={`${state.step.value}.${n}`} class="learn-part" data-part="step-part">
            <Part state={state} />
          </div>
        ))}
    </>
  );
}

/** Numbers without meaning say so before they are read. */
export function MadeUp({ state }: { state: LessonState }) {
  const { made_up } = state.lesson.embeddings;
  if (!made_up.length) return null;
  return (
    <div data-part="made-up">
      <Notice kind="warning">
        These numbers are made up: the vectors of {listed(made_up)} come from a hash of the word and
        mean nothing. The arithmetic is real.
      </Notice>
    </div>
  );
}
