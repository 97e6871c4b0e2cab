import type { Worked, WorkedHead } from "../../maths/lesson";
import { type LessonData, savedEdits } from "../data";
import { language } from "../language";
import type { LessonState } from "../state";

// What a learner takes away, as text: the data of a page that reopens as it was left, and JSON.

/** The lesson with what was changed in it, in the language and at the step where it was left. */
export function savedLesson(state: LessonState): LessonData {
  return {
    ...state.lesson,
    options: { ...state.lesson.options, language: language.value },
    row: state.focus.value,
    step: state.step.value,
    head: state.head.value,
    given: state.given.value,
    edits: savedEdits(state.edits.value),
  };
}

/** The text of the page's data script. No `<`, so that nothing in it can end the script. */
export function dataScript(state: LessonState): string {
  const carried = { kind: "lesson", lesson: savedLesson(state) };
  return JSON.stringify(carried).replaceAll("<", "\\u003c");
}

type Named = Readonly<Record<string, unknown>>;

/** Every number of every step by the names Python uses; null where a score is hidden (−∞). */
export function numbersJson(state: LessonState): string {
  const { given, worked, edits, lesson } = state;
  const found: Named = {
    tokens: lesson.tokens,
    options: {
      positions: given.value.withPositions,
      scaled: given.value.scaled,
      causal: given.value.causal,
    },
    changed: savedEdits(edits.value),
    ...numbersByName(worked.value),
  };
  return `${JSON.stringify(found, null, 1)}\n`;
}

/** "x", "h0.queries" … → the matrix, in the order they are computed. */
export function numbersByName(worked: Worked): Readonly<Record<string, WorkedHead["weights"]>> {
  const heads = worked.heads.flatMap((head, h) =>
    Object.entries(head).map(([name, matrix]) => [`h${h}.${name}`, matrix] as const),
  );
  const block = Object.entries(worked.block ?? {}).map(
    ([name, matrix]) => [name === "output" ? "block_output" : name, matrix] as const,
  );
  const { words, positions, x, concat, w_o, output } = worked;
  return Object.fromEntries([
    ...Object.entries({ words, positions, x }),
    ...heads,
    ["concat", concat],
    ...(w_o ? [["w_o", w_o] as const] : []),
    ["output", output],
    ...block,
  ]);
}
