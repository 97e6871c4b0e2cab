import { type Binding, useKeys } from "../../shell/keys";
import { say } from "../language";
import { flip, goToStep, type LessonState, nextHead, nextToken, present } from "../state";
import { revealNext } from "./Presenter";

/** Keys of the learner's room; in presenter mode also those that reveal and leave. */
export function useRoomKeys(state: LessonState): void {
  const by = (steps: number) => () => goToStep(state, state.step.value + steps);
  const always: Binding[] = [
    { key: "ArrowLeft", does: say("keys.before"), run: by(-1) },
    { key: "ArrowRight", does: say("keys.after"), run: by(1) },
    { key: "t", does: say("keys.token"), run: () => nextToken(state) },
    { key: "o", does: say("keys.positions"), run: () => flip(state, "withPositions") },
    { key: "s", does: say("keys.scaled"), run: () => flip(state, "scaled") },
    { key: "c", does: say("keys.causal"), run: () => flip(state, "causal") },
  ];
  if (state.lesson.heads.length > 1) {
    always.push({ key: "h", does: say("keys.head"), run: () => nextHead(state) });
  }
  const presenting: Binding[] = [
    { key: " ", does: say("keys.part"), run: () => revealNext(state) },
    { key: "Escape", does: say("keys.leave"), run: () => present(state, false) },
  ];
  const isOn = state.presenting.value;
  const toggle = {
    key: "p",
    does: say("keys.present"),
    run: () => present(state, !isOn),
  };
  useKeys(say("keys.title"), [...always, toggle, ...(isOn ? presenting : [])]);
}
