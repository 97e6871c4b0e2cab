import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { say } from "../language";
import { MOST_WORDS, problemOf } from "../make";
import type { LessonState } from "../state";
import "./sentence.css";

function wordsFor(problem: ReturnType<typeof problemOf>): string {
  if (problem === null) return "";
  if (problem === "empty") return say("sentence.empty");
  return say("sentence.too_long", { count: problem, most: MOST_WORDS });
}

/** The sentence, to be typed over: Enter applies it, Escape puts the last one back. */
export function SentenceForm({ state }: { state: LessonState }) {
  const { sentence } = state.asked.value;
  const draft = useSignal(sentence);
  const problem = useSignal("");
  const put = (text: string) => {
    draft.value = text;
    problem.value = "";
  };
  useEffect(() => put(sentence), [sentence]);
  const apply = (event: Event) => {
    event.preventDefault();
    problem.value = wordsFor(problemOf(draft.value));
    if (!problem.value) state.change({ sentence: draft.value });
  };
  return (
    <form class="learn-sentence" data-part="sentence-form" onSubmit={apply}>
      <h1 class="unseen" data-part="sentence">
        {sentence}
      </h1>
      <input
        type="text"
        data-part="sentence-input"
        aria-label={say("sentence.label")}
        aria-describedby={problem.value ? "sentence-problem" : undefined}
        aria-invalid={problem.value !== ""}
        title={sentence}
        autocomplete="off"
        spellcheck={false}
        value={draft.value}
        onInput={(event) => put(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") put(sentence);
        }}
      />
      <button type="submit" data-part="sentence-apply" disabled={draft.value === sentence}>
        {say("sentence.apply")}
      </button>
      {problem.value && (
        <p class="learn-problem" role="alert" id="sentence-problem" data-part="sentence-problem">
          {problem.value}
        </p>
      )}
    </form>
  );
}
