import type { Place } from "../../shell/address";
import { languages, type Phrase, phrase } from "../language";
import { HEADS, MOST_WORDS, problemOf, VECTORS } from "../make";
import { FIRST_STEP, LAST_STEP, type LessonState } from "../state";

interface Ignored {
  /** Of the address. */
  readonly word: string;
  /** What it should have been; without, it is left out. */
  readonly instead?: string;
  /** What the reader is told. */
  readonly words: Phrase;
}

const LONGEST = 24; // letters of a word that are shown

/** What an address asks of the lesson and cannot be given. */
export function ignoredIn(at: Place, state: LessonState): readonly Ignored[] {
  return [...ofSentence(at), ...ofChoices(at, state), ...ofPlaces(at, state)];
}

function ofSentence({ sentence }: Place): readonly Ignored[] {
  if (sentence === undefined) return [];
  const problem = problemOf(sentence);
  if (problem === null) return [];
  const words =
    problem === "empty"
      ? phrase("link.empty")
      : phrase("link.too_long", { count: problem, most: MOST_WORDS });
  return [{ word: "sentence", words }];
}

function ofChoices(at: Place, state: LessonState): readonly Ignored[] {
  const offered = { vectors: VECTORS, heads: HEADS, language: languages.value };
  const unknown = Object.entries(offered).flatMap(([word, known]) => {
    const asked = at[word];
    if (asked === undefined || (known as readonly string[]).includes(asked)) return [];
    return [{ word, words: phrase("link.unknown", { word, text: shown(asked), known }) }];
  });
  const heads = state.asked.value.heads;
  if (at.heads !== "by-hand" || heads === "by-hand" || problemOf(at.sentence ?? "a"))
    return unknown;
  return [...unknown, { word: "heads", instead: heads, words: phrase("link.by_hand") }];
}

/** Another room of `regard play` has its own rows and heads. */
function ofPlaces(at: Place, { lesson }: LessonState): readonly Ignored[] {
  const ends: readonly (readonly [word: string, least: number, most: number])[] = [
    ["step", FIRST_STEP, LAST_STEP],
    ["row", 1, lesson.tokens.length],
    ["head", 1, lesson.heads.length],
  ];
  return ends.flatMap(([word, least, most]) => {
    const asked = at[word];
    const isKnown = /^\d+$/.test(asked ?? "") && Number(asked) >= least && Number(asked) <= most;
    if (asked === undefined || isKnown || (at.view && word !== "step")) return [];
    return [{ word, words: phrase("link.beyond", { word, text: shown(asked), least, most }) }];
  });
}

function shown(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
