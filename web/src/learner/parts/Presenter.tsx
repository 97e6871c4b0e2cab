import { useEffect, useRef } from "preact/hooks";
import { say } from "../language";
import { goToStep, LAST_STEP, type LessonState } from "../state";
import { MadeUp, Parts, StageHead, stepOf } from "./Stage";

const WORDS_AFTER = 2; // the why with its question, then the answer

/** One thing more: the next part of the step, or the next step. */
export function revealNext(state: LessonState): void {
  const parts = stepOf(state).step.parts(state).length;
  if (state.shown.value < parts + WORDS_AFTER) state.shown.value += 1;
  else goToStep(state, state.step.value + 1);
}

/** What was revealed last: all of it, or its beginning where it is taller than the screen. The end
 * leaves room for the line of keys. */
function bringIn(end: HTMLElement | null): void {
  const last = end?.previousElementSibling;
  if (!end || !last) return;
  const height = end.getBoundingClientRect().bottom - last.getBoundingClientRect().top;
  if (height > innerHeight) last.scrollIntoView({ block: "start" });
  else scrollTo(0, document.documentElement.scrollHeight);
}

/** Large type for a room full of people; keys only. */
export function Presenter({ state }: { state: LessonState }) {
  const end = useRef<HTMLDivElement>(null);
  const { step, words } = stepOf(state);
  const shown = state.shown.value;
  const beyond = shown - step.parts(state).length;
  useEffect(() => {
    document.documentElement.dataset.presenting = "yes";
    return () => {
      delete document.documentElement.dataset.presenting;
    };
  }, []);
  useEffect(() => {
    if (shown > 1) bringIn(end.current);
    else scrollTo(0, 0);
  }, [shown, state.step.value]);
  return (
    <main class="learn-presenter" data-part="presenter">
      <StageHead state={state} />
      <MadeUp state={state} />
      <Parts state={state} most={shown} />
      {beyond >= 1 && (
        <section class="card" data-part="presenter-why">
          <p>{words.why}</p>
          <p>
            <b>{words.question}</b>
          </p>
          {beyond >= WORDS_AFTER && <p data-part="answer">{words.answer}</p>}
        </section>
      )}
      <div ref={end} class="learn-presenter-end" />
      <PresenterLine state={state} />
    </main>
  );
}

function PresenterLine({ state }: { state: LessonState }) {
  const { causal, scaled } = state.given.value;
  const total = stepOf(state).step.parts(state).length + WORDS_AFTER;
  return (
    <footer class="learn-presenter-line" data-part="presenter-line">
      <span>
        {say("presenter.place", {
          step: state.step.value,
          last: LAST_STEP,
          part: state.shown.value,
          total,
        })}
      </span>
      <span>
        <kbd>t</kbd> {state.lesson.labels[state.focus.value]}
      </span>
      <span>
        <kbd>c</kbd> {causal ? say("presenter.causal_on") : say("presenter.causal_off")}
      </span>
      <span>
        <kbd>s</kbd> {scaled ? say("presenter.scaled_on") : say("presenter.scaled_off")}
      </span>
      <span>
        <kbd>{say("shell.space")}</kbd> {say("presenter.more")}
      </span>
      <span>
        <kbd>p</kbd> / <kbd>Esc</kbd> {say("presenter.leave")}
      </span>
    </footer>
  );
}
