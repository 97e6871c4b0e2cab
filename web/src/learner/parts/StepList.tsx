import { useEffect, useRef } from "preact/hooks";
import { goToStep, LAST_STEP, type LessonState } from "../state";
import { WORDS } from "../steps/words";

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
    <nav class="learn-steps" aria-label="Steps" data-part="steps">
      <ol ref={list}>
        {WORDS.map((words, n) => (
          <li key={words.name} class={n === LAST_STEP - 1 ? "is-after" : ""}>
            <button
              type="button"
              data-part={`step-${n + 1}`}
              aria-current={step === n + 1 ? "step" : undefined}
              onClick={() => goToStep(state, n + 1)}
            >
              <span class="learn-number">{n + 1}</span> {words.name}
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
    const words = WORDS[to - 1];
    if (!words) return <span />;
    return (
      <button type="button" data-part={part} onClick={() => goToStep(state, to)}>
        {text(`${to} ${words.name}`)}
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
