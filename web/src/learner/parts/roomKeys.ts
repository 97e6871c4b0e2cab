import { type Binding, useKeys } from "../../shell/keys";
import { flip, goToStep, type LessonState, nextHead, nextToken, present } from "../state";
import { revealNext } from "./Presenter";

/** Keys of the learner's room; in presenter mode also those that reveal and leave. */
export function useRoomKeys(state: LessonState): void {
  const by = (steps: number) => () => goToStep(state, state.step.value + steps);
  const always: Binding[] = [
    { key: "ArrowLeft", does: "the step before", run: by(-1) },
    { key: "ArrowRight", does: "the step after", run: by(1) },
    { key: "t", does: "spell out the next token's row", run: () => nextToken(state) },
    { key: "o", does: "positions on or off", run: () => flip(state, "withPositions") },
    { key: "s", does: "divide by √d_k or not", run: () => flip(state, "scaled") },
    { key: "c", does: "causal mask on or off", run: () => flip(state, "causal") },
  ];
  if (state.lesson.heads.length > 1) {
    always.push({ key: "h", does: "the next head", run: () => nextHead(state) });
  }
  const presenting: Binding[] = [
    { key: " ", does: "show the next part", run: () => revealNext(state) },
    { key: "Escape", does: "leave presenter mode", run: () => present(state, false) },
  ];
  const isOn = state.presenting.value;
  const toggle = {
    key: "p",
    does: `presenter mode ${isOn ? "off" : "on"}`,
    run: () => present(state, !isOn),
  };
  useKeys("Lesson", [...always, toggle, ...(isOn ? presenting : [])]);
}
