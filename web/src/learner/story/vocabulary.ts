import type { Vector } from "../../maths/matrix";
import { bare, type Vocabulary } from "../../maths/vocabulary";
import { vocabularyOf } from "../make";
import type { LessonState } from "../state";

/** The words that may come next, each with its vector. */
export interface NextVocabulary {
  readonly words: readonly string[];
  readonly rows: readonly Vector[];
}

/** Words with a vector of the same kind, then those of the sentence, as
 * src/regard/learn/lesson/block.py. */
export function nextVocabulary(state: LessonState): NextVocabulary {
  return joined(known(state), state.lesson.tokens, state.worked.value.words);
}

/** The words of a list, then the tokens that are not among them. */
export function joined(
  list: Vocabulary | null,
  tokens: readonly string[],
  rows: readonly Vector[],
): NextVocabulary {
  const found = new Map<string, Vector>(Object.entries(list?.words ?? {}));
  tokens.forEach((token, n) => {
    const word = bare(token);
    if (!found.has(word)) found.set(word, rows[n] ?? []);
  });
  return { words: [...found.keys()], rows: [...found.values()] };
}

/** The list that the sentence's vectors are from; none where a file gave them. */
function known(state: LessonState): Vocabulary | null {
  return state.lesson.options.embeddings
    ? null
    : vocabularyOf(state.lesson, state.asked.value.vectors);
}
