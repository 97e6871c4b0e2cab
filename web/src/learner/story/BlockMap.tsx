import type { JSX } from "preact";
import { Say, say } from "../language";
import { goToStep, type LessonState } from "../state";
import { wordsOfStep } from "../steps/words";

const ATTENTION = [2, 3, 4, 5, 6, 7];
const BEYOND = [8, 11, 12];

/** The whole way as one picture: every box leads to its step. */
export function BlockMap({ state }: { state: LessonState }) {
  const box = (step: number) => (
    <button
      type="button"
      key={step}
      data-part={`map-step-${step}`}
      onClick={() => goToStep(state, step)}
    >
      <span class="learn-number">{step}</span> {wordsOfStep(step).name}
    </button>
  );
  return (
    <section data-part="block-map">
      <h3>{say("why.map_title")}</h3>
      <p>
        <Say name="why.map_lead" />
      </p>
      <div class="story-map">
        <span class="story-map-end">{say("why.map_words")}</span>
        {onward(box(1))}
        <div class="story-map-block">
          <div class="story-map-attention">
            <span class="story-map-name weight">{say("why.map_attention")}</span>
            <div class="story-map-steps">
              {ATTENTION.map((step, n) => (n > 0 ? onward(box(step)) : box(step)))}
            </div>
          </div>
          {onward(box(9))}
          <span class="story-map-name">↻ {say("why.map_again")}</span>
        </div>
        {onward(box(10))}
        {onward(<span class="story-map-end">{say("why.map_next")}</span>)}
      </div>
      <div class="story-map-beyond">
        <span class="soft">{say("why.map_beyond")}</span> {BEYOND.map(box)}
      </div>
    </section>
  );
}

/** What an arrow leads to; the two stay on one line. */
function onward(to: JSX.Element) {
  return (
    <span key={to.key} class="story-map-step">
      <span class="story-onward" aria-hidden="true">
        →
      </span>
      {to}
    </span>
  );
}
