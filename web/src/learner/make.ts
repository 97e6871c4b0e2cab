import { drawnMatrix } from "../maths/draws";
import { cut, type Heads, headsByHand, identityHeads, randomHeads } from "../maths/heads";
import type { Projections } from "../maths/lesson";
import { type Matrix, multiply, transpose } from "../maths/matrix";
import { labelsOf, printable, tokensOf } from "../maths/text";
import { unpacked, type Vocabulary, vectorOf } from "../maths/vocabulary";
import type { LessonData } from "./data";
import { NOTES } from "./examples";
import type { Phrase } from "./language";

// A lesson on another sentence: what src/regard/viewer/lesson.py would have written for it.

export const VECTORS = ["notes", "features", "smollm2"] as const;
export const HEADS = ["one", "by-hand", "random"] as const;
export const MOST_WORDS = 24;

export interface Asked {
  readonly sentence: string;
  readonly vectors: (typeof VECTORS)[number];
  /** by-hand needs features; with other vectors it is one. */
  readonly heads: (typeof HEADS)[number];
}

const SEED = 1; // of random heads, as PAGE_SEED in Python
const SPLITS = [1, 2, 4];
const NAMED = 12;
const WIDENING = 2;

/** What a lesson was made from, as near as the page can say it. */
export function askedOf({ options, tokens }: LessonData): Asked {
  const vectors = VECTORS.find((one) => one === options.vectors) ?? "notes";
  const projections = String(options.projections ?? "identity");
  const isRandom = projections.startsWith("random");
  const heads = projections === "by-hand" ? "by-hand" : isRandom ? "random" : "one";
  return { sentence: tokens.join(" "), vectors, heads };
}

export function sameAsked(one: Asked | null, other: Asked | null): boolean {
  if (!one || !other) return one === other;
  return (
    one.sentence === other.sentence && one.vectors === other.vectors && one.heads === other.heads
  );
}

/** Why a sentence cannot be taken: it is empty, or how many words it has. */
export function problemOf(sentence: string): "empty" | number | null {
  const count = tokensOf(sentence).length;
  return count > MOST_WORDS ? count : count ? null : "empty";
}

/** With single blanks, and heads that the vectors allow; null where there is no such lesson. */
export function fitting(asked: Asked): Asked | null {
  if (problemOf(asked.sentence) !== null) return null;
  const heads = asked.heads === "by-hand" && asked.vectors !== "features" ? "one" : asked.heads;
  return { sentence: tokensOf(asked.sentence).join(" "), vectors: asked.vectors, heads };
}

/** Whether making it anew would give the same: no file, no other seed, no other sizes. */
export function isMadeOf({ options }: LessonData, asked: Asked): boolean {
  const spec = { one: "identity", "by-hand": "by-hand", random: `random:${SEED}` }[asked.heads];
  const count = asked.heads === "one" ? 1 : 2;
  const own = asked.heads === "random" ? [2] : [null, undefined, count];
  return (
    (options.projections ?? "identity") === spec &&
    (own as unknown[]).includes(options.heads) &&
    !options.embeddings &&
    !options.d_k &&
    !options.d_v
  );
}

export function vocabularyOf(from: LessonData, name: Asked["vectors"]): Vocabulary {
  return name === "smollm2" ? unpacked(from.vocabularies.smollm2) : from.vocabularies[name];
}

export function makeLesson(from: LessonData, asked: Asked): LessonData {
  const tokens = tokensOf(asked.sentence);
  const vocabulary = vocabularyOf(from, asked.vectors);
  const kind = asked.heads === "by-hand" && !vocabulary.names ? "one" : asked.heads;
  const made = headsOf(kind, vocabulary);
  const seed = kind === "random" ? SEED : 0;
  const embeddings = embeddingsOf(tokens, vocabulary);
  const options = {
    ...from.options,
    sentence: asked.sentence,
    token: null,
    projections: { one: "identity", "by-hand": "by-hand", random: `random:${SEED}` }[kind],
    vectors: asked.vectors,
    embeddings: null,
    d_k: null,
    d_v: null,
    heads: kind === "random" ? 2 : null,
  };
  const { given: _, edits: __, head: ___, ...kept } = from;
  return {
    ...kept,
    tokens,
    labels: labelsOf(tokens),
    row: tellingRow(embeddings.words, made.heads[0]),
    options,
    embeddings,
    projections: from.head_sources[kind],
    heads: made.heads,
    w_o: made.w_o,
    block: blockOf(vocabulary.width, seed),
    is_notes_example: isNotesExample(tokens, options, kind),
    splits: splitsOf(from, kind, vocabulary.width, made),
  };
}

/** The first token that a head can tell something of: one of its scores is not 0. Without one, the
 * first whose vector is not. */
export function tellingRow(x: Matrix, head: Projections | undefined): number {
  const isAny = (row: readonly number[]) => row.some((value) => value !== 0);
  const scores = head ? scoresOf(x, head) : x;
  const found = scores.findIndex(isAny);
  return Math.max(found < 0 ? x.findIndex(isAny) : found, 0);
}

/** (x·w_q)·(x·w_k)ᵀ. */
function scoresOf(x: Matrix, { w_q, w_k }: Projections): Matrix {
  return multiply(multiply(x, w_q), transpose(multiply(x, w_k)));
}

function headsOf(kind: Asked["heads"], { names, width }: Vocabulary): Heads {
  if (kind === "by-hand" && names) return headsByHand(names);
  if (kind === "random") return randomHeads(width, SEED);
  return { heads: identityHeads(width, 1).heads, w_o: null }; // the notes' single head has no w_o
}

function embeddingsOf(tokens: readonly string[], vocabulary: Vocabulary) {
  const found = tokens.map((token) => vectorOf(vocabulary, token));
  const made_up = [...new Set(tokens.filter((_, n) => found[n]?.isMadeUp))];
  return {
    source: sourceOf(vocabulary, tokens, made_up),
    names: vocabulary.names,
    made_up,
    words: found.map(({ vector }) => vector),
    positions: sinusoids(tokens.length, vocabulary.width),
  };
}

/** Of the words that have vectors, and those that were given one. */
function sourceOf(
  vocabulary: Vocabulary,
  tokens: readonly string[],
  made_up: readonly string[],
): Phrase {
  if (!made_up.length) return vocabulary.source;
  const words = listing(made_up);
  const known = [...new Set(tokens)].filter((token) => !made_up.includes(token));
  if (!known.length) return { say: "origins.made_up", values: { words } };
  if (vocabulary.source.say === "origins.notes") {
    return { say: "origins.notes_and_made_up", values: { known: listing(known), words } };
  }
  return { say: "vectors.with_made_up", values: { source: vocabulary.source, words } };
}

/** All names, or the first twelve and how many more. */
function listing(names: readonly string[]): readonly string[] | Phrase {
  const [shown, rest] = [names.map(printable), names.length - NAMED];
  if (rest <= 0) return shown;
  return { say: "list.more", values: { names: shown.slice(0, NAMED), count: rest } };
}

/** sin(p / 10000^(2i/width)) in even columns, the cosine in odd ones. */
function sinusoids(tokens: number, width: number): Matrix {
  return Array.from({ length: tokens }, (_, place) =>
    Array.from({ length: width }, (_, d) => {
      const angle = place / 10000 ** ((2 * Math.floor(d / 2)) / width);
      return d % 2 === 0 ? Math.sin(angle) : Math.cos(angle);
    }),
  );
}

function blockOf(width: number, seed: number): LessonData["block"] {
  const hidden = WIDENING * width;
  return {
    w_1: drawnMatrix([seed, 1, 5], width, hidden, width ** -0.5),
    w_2: drawnMatrix([seed, 1, 6], hidden, width, width ** -0.5),
  };
}

function isNotesExample(
  tokens: readonly string[],
  options: LessonData["options"],
  kind: Asked["heads"],
): boolean {
  const isPlain = options.scaled !== false && options.causal !== true && options.positions !== true;
  const isNotes = tokens.join(" ").toLowerCase() === NOTES.toLowerCase();
  return isPlain && isNotes && options.vectors === "notes" && kind === "one";
}

/** The same numbers in 1, 2 and 4 heads; identities are made anew for every count. */
function splitsOf(
  from: LessonData,
  kind: Asked["heads"],
  width: number,
  made: Heads,
): LessonData["splits"] {
  return SPLITS.map((count) => {
    if (kind === "one") {
      return {
        ...identityHeads(width, count),
        words: from.head_sources[count > 1 ? "split" : "one"],
      };
    }
    const w_o = made.w_o as Matrix;
    return { heads: cut(made.heads, count), w_o, words: from.head_sources[kind] };
  });
}
