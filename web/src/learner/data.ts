import type { Edits, Given, Projections } from "../maths/lesson";
import type { Matrix } from "../maths/matrix";
import type { PackedVocabulary, Vocabulary } from "../maths/vocabulary";
import type { Phrase, Tables } from "./language";

/** A lesson as Python wrote it into the page (src/regard/viewer/lesson.py): what it starts from. */
export interface LessonData {
  readonly tokens: readonly string[];
  readonly labels: readonly string[];
  readonly row: number;
  readonly options: Readonly<Record<string, unknown>>;
  readonly embeddings: {
    readonly source: Phrase;
    /** Names of the dimensions, where they have names. */
    readonly names?: readonly string[] | null;
    /** Words whose vectors were made up. */
    readonly made_up: readonly string[];
    readonly words: Matrix;
    /** Sinusoids for the places; always there, so that they can be switched on. */
    readonly positions: Matrix;
  };
  /** Where the projections come from. */
  readonly projections: Phrase;
  readonly heads: readonly Projections[];
  readonly w_o: Matrix | null;
  readonly block: { readonly w_1: Matrix; readonly w_2: Matrix };
  /** Whether these are the notes' own numbers. */
  readonly is_notes_example: boolean;
  /** The same sentence split into 1, 2 and 4 heads at the same parameter count. */
  readonly splits: readonly {
    readonly heads: readonly Projections[];
    readonly w_o: Matrix;
    readonly words: Phrase;
  }[];
  /** A real head of a real model on a real text, where the package carries one. */
  readonly real: RealHead | null;
  /** What a real model puts after a few prompts, where the package carries it. */
  readonly next_words: NextWords | null;
  readonly exercises: readonly Exercise[];
  /** Every sentence of the room, by language. */
  readonly languages: Tables;
  /** Word → vector: what a sentence typed into the page can be made of. */
  readonly vocabularies: {
    readonly notes: Vocabulary;
    readonly features: Vocabulary;
    readonly smollm2: PackedVocabulary;
  };
  /** Where the heads come from that the page can make itself. */
  readonly head_sources: Readonly<Record<"one" | "split" | "by-hand" | "random", Phrase>>;
  /** In a page that a learner saved: what it had been given, and what was changed by hand. */
  readonly given?: Given;
  readonly edits?: SavedEdits;
  /** And where it was left: the step, and the head that was spelt out. */
  readonly step?: number;
  readonly head?: number;
}

/** Name of a matrix → "row,column" → the number put there; null for −∞, which JSON cannot say. */
export type SavedEdits = Readonly<Record<string, Readonly<Record<string, number | null>>>>;

/** One head of a real model: q and k as the model computed them (after rotation), v too. */
export interface RealHead {
  readonly model: string;
  readonly label: string;
  readonly words: Phrase; // what this head does, in a sentence with its number
  readonly tokens: readonly string[];
  readonly queries: Matrix;
  readonly keys: Matrix;
  readonly values: Matrix;
  readonly scale: number;
  readonly causal: boolean;
  /** The row to begin with. */
  readonly row?: number;
}

/** The likeliest next tokens of a real model, as tools/next_words.py wrote them. */
export interface NextWords {
  readonly model: string;
  /** Tokens of the whole vocabulary, and how many of them are kept here. */
  readonly vocabulary: number;
  readonly kept: number;
  /** The sizes that decide how large its cache of keys and values is. */
  readonly cache: {
    readonly layers: number;
    readonly heads: number;
    readonly key_heads: number;
    readonly d: number;
    /** The longest text. */
    readonly tokens: number;
    readonly bytes: number;
  };
  readonly prompts: readonly {
    readonly text: string;
    readonly words: readonly string[];
    readonly logits: readonly number[];
    /** log Σ e^logit over the whole vocabulary. */
    readonly log_sum: number;
  }[];
}

/** Worked by hand; the answers are checked on the page. */
export interface Exercise {
  readonly seed: number;
  readonly tokens: readonly string[];
  readonly x: Matrix;
  readonly heads: readonly Projections[];
}

export function givenOf(lesson: LessonData): Given {
  if (lesson.given) return lesson.given;
  const asked = lesson.options;
  return {
    words: lesson.embeddings.words,
    positions: lesson.embeddings.positions,
    heads: lesson.heads,
    w_o: lesson.w_o,
    w_1: lesson.block.w_1,
    w_2: lesson.block.w_2,
    withPositions: asked.positions === true,
    scaled: asked.scaled !== false,
    causal: asked.causal === true,
  };
}

/** The changes that a saved page carries. */
export function editsOf(lesson: LessonData): Edits {
  return new Map(
    Object.entries(lesson.edits ?? {}).map(([name, cells]) => [
      name,
      new Map(
        Object.entries(cells).map(([cell, value]) => [cell, value ?? Number.NEGATIVE_INFINITY]),
      ),
    ]),
  );
}

/** The other way round, for a page to be saved. */
export function savedEdits(edits: Edits): SavedEdits {
  return Object.fromEntries(
    [...edits].map(([name, cells]) => [
      name,
      Object.fromEntries(
        [...cells].map(([cell, value]) => [cell, Number.isFinite(value) ? value : null]),
      ),
    ]),
  );
}
