import { useEffect, useRef } from "preact/hooks";
import { say } from "../language";
import { goToStep, type LessonState } from "../state";
import { ALL_STEPS, wordsOfStep } from "../steps/words";

const AFTER = [1, 9, 10]; // a line above: attention, the rest of the block, beyond it

/** The way through the lesson, with where one is. */
export function StepList({ state }: { state: LessonState }) {
  const list = useRef<HTMLOListElement>(null);
  const step = state.step.value;
  useEffect(() => {
    const current = list.current?.querySelector<HTMLElement>("[aria-current]");
    if (!list.current || !current) return;
    // The strip of a narrow screen follows; scrollIntoView would move the page too.
    list.current.scrollLeft = current.offsetLeft - list.current.clientWidth / 2;
  }, [step]);
  return (
    <nav class="learn-steps" aria-label={say("page.steps")} data-part="steps">
      <ol ref={list}>
        {ALL_STEPS.map((n) => (
          <li key={n} class={AFTER.includes(n) ? "is-after" : ""}>
            <button
              type="button"
              data-part={`step-${n}`}
              aria-current={step === n ? "step" : undefined}
              onClick={() => goToStep(state, n)}
            >
              <span class="learn-number">{n}</span> {wordsOfStep(n).name}
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}

/** To the step before and the step after, at the end of the stage. */
export function StepLinks({ state }: { state: LessonState }) {
  const step = state.step.value;
  const link = (to: number, part: string, text: (name: string) => string) => {
    if (!ALL_STEPS.includes(to)) return <span />;
    return (
      <button type="button" data-part={part} onClick={() => goToStep(state, to)}>
        {text(`${to} ${wordsOfStep(to).name}`)}
      </button>
    );
  };
  return (
    <div class="learn-links">
      {link(step - 1, "previous-step", (name) => `← ${name}`)}
      {link(step + 1, "next-step", (name) => `${name} →`)}
    </div>
  );
}
