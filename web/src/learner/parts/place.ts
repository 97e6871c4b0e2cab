import { effect } from "@preact/signals";
import { amend, type Place, place } from "../../shell/address";
import { LAST_STEP, type LessonState } from "../state";

// Step, row and head stand in the address, all counted from 1: a link opens the same view.
// The token in an address is the server's, so the token that is spelt out is its row.

/** A whole number from 1 to `most`, or what holds without one. */
export function numberIn(text: string | undefined, most: number, without: number): number {
  const value = Number(text);
  return text && Number.isInteger(value) && value >= 1 && value <= most ? value : without;
}

function wordsIn(state: LessonState, at: Place) {
  const { tokens, heads, row } = state.lesson;
  return {
    step: numberIn(at.step, LAST_STEP, 1),
    row: numberIn(at.row, tokens.length, row + 1),
    head: numberIn(at.head, heads.length, 1),
  };
}

/** Keep the state and the address the same, whichever changes first. Returns how to stop. */
export function followPlace(state: LessonState): () => void {
  const stopReading = effect(() => {
    const words = wordsIn(state, place.value);
    if (state.step.peek() !== words.step) state.shown.value = 1;
    state.step.value = words.step;
    state.focus.value = words.row - 1;
    state.head.value = words.head - 1;
  });
  const stopWriting = effect(() => {
    const now = {
      step: state.step.value,
      row: state.focus.value + 1,
      head: state.head.value + 1,
    };
    const was = wordsIn(state, place.peek());
    if (now.step === was.step && now.row === was.row && now.head === was.head) return;
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
