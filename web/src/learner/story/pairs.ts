import { workOut } from "../../maths/lesson";
import type { Vector } from "../../maths/matrix";
import { bare } from "../../maths/vocabulary";
import { givenOf, type LessonData } from "../data";
import { BANK, IT } from "../examples";
import { makeLesson } from "../make";
import { wordsIn } from "./features";

// One word in two sentences.

export interface Pair {
  readonly word: string;
  readonly sentences: readonly [string, string];
}

export const PAIRS: readonly Pair[] = [
  { word: "bank", sentences: BANK },
  { word: "it", sentences: IT },
];

/** Words that stand in both, the one first that the two sentences tell apart most. */
export function commonWords(lesson: LessonData, sentences: readonly [string, string]): string[] {
  const [one, other] = sentences;
  const there = new Set(wordsIn(other).map(bare));
  const common = [...new Set(wordsIn(one).map(bare))].filter((word) => word && there.has(word));
  const apart = new Map(common.map((word) => [word, apartOf(readingsOf(lesson, sentences, word))]));
  return common.sort((a, b) => (apart.get(b) ?? 0) - (apart.get(a) ?? 0));
}

/** How far the word's two results lie from each other. */
function apartOf([one, other]: readonly [Reading, Reading]): number {
  return distance(one.after, other.after);
}

function distance(one: Vector, other: Vector): number {
  return Math.hypot(...one.map((value, n) => value - (other[n] ?? 0)));
}

export interface Reading {
  readonly tokens: readonly string[];
  /** Words without features, whose vectors are made up. */
  readonly unknown: readonly string[];
  /** Where the word stands. */
  readonly at: number;
  /** Its row in each head: weights, and what they fetched. */
  readonly heads: readonly { readonly weights: Vector; readonly context: Vector }[];
  readonly before: Vector;
  readonly after: Vector;
}

/** What attention makes of the word in a sentence, with the heads made by hand: the numbers of the
 * lesson that `state.change` would start. */
export function readingOf(from: LessonData, sentence: string, word: string): Reading {
  const lesson = makeLesson(from, { sentence, vectors: "features", heads: "by-hand" });
  const plain = { withPositions: false, scaled: true, causal: false };
  const { x, heads, output } = workOut({ ...givenOf(lesson), ...plain });
  const at = Math.max(
    lesson.tokens.findIndex((token) => bare(token) === word),
    0,
  );
  return {
    tokens: lesson.tokens,
    unknown: lesson.embeddings.made_up,
    at,
    heads: heads.map(({ weights, context }) => ({
      weights: weights[at] ?? [],
      context: context[at] ?? [],
    })),
    before: x[at] ?? [],
    after: output[at] ?? [],
  };
}

export function readingsOf(
  from: LessonData,
  [one, other]: readonly [string, string],
  word: string,
): readonly [Reading, Reading] {
  return [readingOf(from, one, word), readingOf(from, other, word)];
}

/** The head that tells the two apart most; where none does, the first. */
export function actingHead([one, other]: readonly [Reading, Reading]): number {
  const apart = one.heads.map(({ context }, h) =>
    distance(context, other.heads[h]?.context ?? context),
  );
  return Math.max(apart.indexOf(Math.max(...apart)), 0);
}
