import { madeUp } from "./draws";
import type { Vector } from "./matrix";

// Words that have a vector, as in src/regard/learn/lesson/embeddings.py.

/** A sentence's name and values. */
interface Sourced {
  readonly say: string;
  readonly values: Readonly<Record<string, string | number>>;
}

export interface Vocabulary {
  /** Names of the dimensions, where they have names. */
  readonly names: readonly string[] | null;
  readonly width: number;
  /** Where the numbers come from. */
  readonly source: Sourced;
  /** By the bare word; a long list is packed (see `unpacked`). */
  readonly words: Readonly<Record<string, Vector>>;
}

/** Words as one string; numbers as base64 of int8, `per_unit` of them to a unit. */
export interface PackedVocabulary {
  readonly source: Sourced;
  /** Of how many numbers these were made, and how much of their variance is left, in %. */
  readonly wide: number;
  readonly percent: number;
  readonly per_unit: number;
  readonly words: string;
  readonly numbers: string;
}

export function unpacked(packed: PackedVocabulary): Vocabulary {
  const bytes = Uint8Array.from(atob(packed.numbers), (letter) => letter.charCodeAt(0));
  const whole = new Int8Array(bytes.buffer);
  const words = packed.words.split(" ");
  const width = whole.length / words.length;
  const vectorAt = (n: number) =>
    Array.from(whole.subarray(n * width, (n + 1) * width), (number) => number / packed.per_unit);
  return {
    names: null,
    width,
    source: packed.source,
    words: Object.fromEntries(words.map((word, n) => [word, vectorAt(n)])),
  };
}

/** In lower case and without punctuation around it: "River." is "river", "…" stays. */
export function bare(word: string): string {
  const plain = word.toLowerCase().normalize("NFC");
  return plain.replace(/^\p{P}+/u, "").replace(/\p{P}+$/u, "") || plain;
}

/** The word's own vector, or one made up from a hash of the word. */
export function vectorOf(
  vocabulary: Vocabulary,
  word: string,
): { readonly vector: Vector; readonly isMadeUp: boolean } {
  const plain = bare(word);
  const isMadeUp = !Object.hasOwn(vocabulary.words, plain);
  if (isMadeUp) return { vector: madeUp(plain, vocabulary.width), isMadeUp };
  return { vector: vocabulary.words[plain] as Vector, isMadeUp };
}
