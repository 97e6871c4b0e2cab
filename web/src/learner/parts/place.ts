import { effect, untracked } from "@preact/signals";
import { amend, go, type Place, place } from "../../shell/address";
import { type Asked, fitting, HEADS, sameAsked, tellingRow, VECTORS } from "../make";
import { FIRST_STEP, LAST_STEP, type LessonState } from "../state";
import { ignoredIn } from "./link";

// Step, row and head stand in the address, row and head counted from 1: a link opens the same view.
// The token in an address is the server's, so the token that is spelt out is its row.
// A sentence typed into the page stands there too, and the back button leads to the one before.
// What an address asks for and cannot be given is taken out of it, and the reader is told.

/** A whole number from `least` to `most`, or what holds without one. */
export function numberIn(
  text: string | undefined,
  most: number,
  without: number,
  least = 1,
): number {
  const value = Number(text);
  return text && Number.isInteger(value) && value >= least && value <= most ? value : without;
}

/** Where a lesson opens: a saved page where it was left; what `regard play` filled is past why. */
function firstStep(state: LessonState, at: Place): number {
  return state.lesson.step ?? (at.view === "lesson" ? 1 : FIRST_STEP);
}

/** Step, row and head of an address; without a row the first that its head can tell of. */
function wordsIn(state: LessonState, at: Place) {
  const { tokens, heads, embeddings, row, head: first = 0 } = state.lesson;
  const head = numberIn(at.head, heads.length, first + 1);
  const isOther = state.chosen.value && head !== first + 1;
  const without = isOther ? tellingRow(embeddings.words, heads[head - 1]) : row;
  return {
    step: numberIn(at.step, LAST_STEP, firstStep(state, at), FIRST_STEP),
    row: numberIn(at.row, tokens.length, without + 1),
    head,
  };
}

/** As words of an address; none that hold without. */
function wordsOf(state: LessonState, at: Place) {
  const without = wordsIn(state, at);
  const [row, head] = [state.focus.value + 1, state.head.value + 1];
  return {
    ...(row === without.row ? {} : { row: `${row}` }),
    ...(head === without.head ? {} : { head: `${head}` }),
  };
}

/** The sentence, vectors and heads of an address; null where it names none that can be shown. */
export function askedIn(at: Place, without: Asked): Asked | null {
  const vectors = VECTORS.find((one) => one === at.vectors);
  const heads = HEADS.find((one) => one === at.heads);
  if (!at.sentence && !vectors && !heads) return null;
  return fitting({
    sentence: at.sentence ?? without.sentence,
    vectors: vectors ?? without.vectors,
    heads: heads ?? without.heads,
  });
}

/** Keep the state and the address the same, whichever changes first. Returns how to stop. */
export function followPlace(state: LessonState): () => void {
  const came = state.asked.peek();
  const stopReading = effect(() => {
    const at = place.value;
    untracked(() => {
      const wanted = askedIn(at, came);
      if (!sameAsked(wanted, state.chosen.value)) state.choose(wanted);
      const words = wordsIn(state, at);
      if (state.step.value !== words.step) state.shown.value = 1;
      state.step.value = words.step;
      state.focus.value = words.row - 1;
      state.head.value = words.head - 1;
      const ignored = ignoredIn(at, state);
      if (!ignored.length) return;
      state.ignored.value = ignored.map(({ words }) => words);
      amend(Object.fromEntries(ignored.map(({ word, instead }) => [word, instead])));
    });
  });
  const stopWriting = effect(() => {
    const chosen = state.chosen.value;
    if (!sameAsked(chosen, askedIn(place.peek(), came))) {
      const { row: _, head: __, sentence, vectors, heads, ...kept } = place.peek();
      go({ ...kept, ...(chosen ?? {}), ...wordsOf(state, kept) });
      return;
    }
    const now = {
      step: state.step.value,
      row: state.focus.value + 1,
      head: state.head.value + 1,
    };
    const was = wordsIn(state, place.peek());
    if (now.step === was.step && now.row === was.row && now.head === was.head) return;
    state.ignored.value = []; // the reader has gone on
    const many = state.lesson.heads.length > 1;
    amend({
      step: `${now.step}`,
      row: `${now.row}`,
      head: many ? `${now.head}` : undefined,
    });
  });
  return () => {
    stopReading();
    stopWriting();
  };
}
