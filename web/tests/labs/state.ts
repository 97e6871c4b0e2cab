import { edit, type LessonState, makeState } from "../../src/learner/state";
import { vectors } from "../maths/vectors";

/** The state of one of the vectors' lessons. */
export function stateOf(name: string): LessonState {
  const found = vectors.lessons[name];
  if (!found) throw new Error(`no lesson "${name}" among the vectors`);
  return makeState(found.data);
}

/** … with numbers put in by hand early, in the middle and late. */
export function editedState(name: string): LessonState {
  const state = stateOf(name);
  edit(state, "words", 0, 1, 0.75);
  edit(state, "h0.w_k", 1, 0, -0.5);
  edit(state, "h0.scores", 0, 0, 1 / 3);
  edit(state, "h0.masked", 1, 0, Number.NEGATIVE_INFINITY);
  edit(state, "concat", 2, 0, 1e-7);
  return state;
}
