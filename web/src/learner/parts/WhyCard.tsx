import { useSignal } from "@preact/signals";
import { say } from "../language";
import type { StepWords } from "../steps/words";

/** Why there is such a step, and a question whose answer waits for a click. */
export function WhyCard({ words }: { words: StepWords }) {
  const isOpen = useSignal(false);
  return (
    <aside class="learn-why card" data-part="why-card" aria-label={say("page.why")}>
      <h2>{say("page.why")}</h2>
      <p>{words.why}</p>
      <h3>{say("page.think_first")}</h3>
      <p data-part="question">{words.question}</p>
      {isOpen.value ? (
        <p class="learn-answer" data-part="answer" role="status">
          {words.answer}
        </p>
      ) : (
        <>
          <button
            type="button"
            data-part="show-answer"
            onClick={() => {
              isOpen.value = true;
            }}
          >
            {say("page.show_answer")}
          </button>
          <p class="learn-answer learn-on-paper" data-part="printed-answer">
            {words.answer}
          </p>
        </>
      )}
    </aside>
  );
}
