import { useMemo } from "preact/hooks";
import { type Given, workOut } from "../../maths/lesson";
import { logitsOf } from "../../maths/nextWord";
import { givenOf, type LessonData } from "../data";
import { BEGINNINGS } from "../examples";
import { Say, say } from "../language";
import { type Asked, makeLesson } from "../make";
import { Explanation } from "../parts/Products";
import { RowVector } from "../parts/RowVector";
import type { LessonState } from "../state";
import { makeDraws, Sampler } from "./Sampler";
import { joined } from "./vocabulary";

export const EXAMPLE: Asked = {
  sentence: BEGINNINGS[0],
  vectors: "features",
  heads: "by-hand",
};

/** h of the last token, and a logit per word: the numbers of the lesson that `change` would start. */
export function exampleOf(from: LessonData, how: Partial<Given> = {}) {
  const lesson = makeLesson(from, EXAMPLE);
  const { block, words: rows } = workOut({ ...givenOf(lesson), ...how });
  const hidden = block?.output.at(-1) ?? [];
  const vocabulary = joined(from.vocabularies.features, lesson.tokens, rows);
  return {
    token: lesson.labels.at(-1) ?? "",
    hidden,
    words: vocabulary.words,
    logits: logitsOf(hidden, vocabulary.rows),
  };
}

/** Where the lesson's own h is zero: a beginning whose h is not. */
export function NextExample({ state }: { state: LessonState }) {
  const draws = useMemo(makeDraws, []);
  const { withPositions, scaled, causal } = state.given.value;
  const { token, hidden, words, logits } = useMemo(
    () => exampleOf(state.lesson, { withPositions, scaled, causal }),
    [state.lesson, withPositions, scaled, causal],
  );
  return (
    <div data-part="next-example">
      <h3>{say("next_word.example_title", { sentence: EXAMPLE.sentence })}</h3>
      <p>
        <Say name="next_word.example_lead" with={{ token, count: words.length }} />
      </p>
      <Explanation>
        h = <RowVector values={hidden} tone="output" />
      </Explanation>
      <Sampler draws={draws} part="example-sampler" words={words} logits={logits} seed={1} />
      <button type="button" data-part="work-through" onClick={() => state.change(EXAMPLE)}>
        {say("next_word.work_through")}
      </button>
    </div>
  );
}
