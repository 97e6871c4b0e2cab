import { signal } from "@preact/signals";
import { amend } from "../../shell/address";
import { say } from "../language";
import type { LessonState } from "../state";
import { ALL_STEPS } from "../steps/words";
import { MadeUp, Parts, StageHead, stepOf } from "./Stage";
import { WhyCard } from "./WhyCard";

/** The lesson as it is at another step; all else is shared. */
function atStep(state: LessonState, step: number): LessonState {
  return Object.create(state, { step: { value: signal(step) } });
}

const DRAWN = 300; // milliseconds until the pictures have measured their room

/** All steps on the page, then the browser's own way to print. */
export function printAll(): void {
  amend({ print: "all" });
  setTimeout(() => globalThis.print(), DRAWN);
}

/** Every step after the other, for paper. */
export function AllSteps({ state }: { state: LessonState }) {
  return (
    <div class="learn-all" data-part="all-steps">
      <header class="learn-all-head">
        <h1>{state.asked.value.sentence}</h1>
        <p class="soft">{say("print.lead")}</p>
        <p class="learn-on-screen">
          <button type="button" data-part="print-now" onClick={() => globalThis.print()}>
            {say("print.now")}
          </button>{" "}
          <button
            type="button"
            data-part="leave-print"
            onClick={() => amend({ print: undefined, step: `${state.step.value}` })}
          >
            {say("print.back")}
          </button>
        </p>
      </header>
      <MadeUp state={state} />
      {ALL_STEPS.map((n) => (
        <OneStep key={n} state={atStep(state, n)} />
      ))}
    </div>
  );
}

function OneStep({ state }: { state: LessonState }) {
  return (
    <section class="learn-all-step" data-part="stage" data-step={state.step.value}>
      <StageHead state={state} />
      <Parts state={state} most={Number.POSITIVE_INFINITY} />
      <WhyCard words={stepOf(state).words} />
    </section>
  );
}
