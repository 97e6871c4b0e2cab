import { Notice } from "../../parts/Notice";
import { listed, say } from "../language";
import type { LessonState } from "../state";
import type { Step } from "../steps/step";
import { STEPS } from "../steps/steps";
import { type StepWords, wordsOfStep } from "../steps/words";

export function stepOf(state: LessonState): { readonly step: Step; readonly words: StepWords } {
  const at = state.step.value;
  return { step: STEPS[at] as Step, words: wordsOfStep(at) };
}

/** Number, title and formula of the step. */
export function StageHead({ state }: { state: LessonState }) {
  const { step, words } = stepOf(state);
  const FormulaOfStep = step.formula;
  return (
    <div class="learn-stage-head">
      <h2 data-part="step-title" tabIndex={-1}>
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
  const { tokens, labels, embeddings } = state.lesson;
  const { made_up } = embeddings;
  if (!made_up.length || stepOf(state).step.hasOwnText) return null;
  const names = made_up.map((word) => labels[tokens.indexOf(word)] ?? word);
  return (
    <div data-part="made-up">
      <Notice kind="warning">{say("page.made_up", { names: listed(names) })}</Notice>
    </div>
  );
}
