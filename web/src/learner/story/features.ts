import type { Vector } from "../../maths/matrix";
import { bare, vectorOf } from "../../maths/vocabulary";
import type { LessonData } from "../data";
import { type Sentence, say } from "../language";

/** Words of a text, at blanks. */
export function wordsIn(text: string): string[] {
  return text.split(/\s+/).filter(Boolean);
}

export interface Featured {
  readonly tokens: readonly string[];
  readonly x: readonly Vector[];
  /** Words without features; their vector is zero. */
  readonly unknown: readonly string[];
}

/** The features by their own names, and as they are called in the language that is shown. */
export function featureNames(lesson: LessonData): { name: string; label: string }[] {
  const names = lesson.vocabularies.features.names ?? [];
  return names.map((name) => ({ name, label: say(`vectors.${name}` as Sentence) }));
}

/** The hand-made features of each word; `meanings` says which word a foreign one stands for. */
export function featured(
  lesson: LessonData,
  tokens: readonly string[],
  meanings: Readonly<Record<string, string>> = {},
): Featured {
  const { features } = lesson.vocabularies;
  const found = tokens.map((word) => vectorOf(features, meanings[bare(word)] ?? word));
  return {
    tokens,
    x: found.map(({ vector, isMadeUp }) => (isMadeUp ? vector.map(() => 0) : vector)),
    unknown: [...new Set(tokens.filter((_, n) => found[n]?.isMadeUp))],
  };
}
