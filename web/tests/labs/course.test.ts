import { describe, expect, it } from "vitest";
import {
  advanced,
  begin,
  drawnProblem,
  lessonProblem,
  rowsAlive,
} from "../../src/learner/labs/course";
import { edit } from "../../src/learner/state";
import { stateOf } from "./state";

describe("two heads that learn", () => {
  it("start from the lesson's own numbers, changes included", () => {
    const state = stateOf("notes");
    const { raw, scaled } = begin(lessonProblem(state));
    expect(scaled.first.weights).toEqual(state.worked.value.heads[0]?.weights);
    expect(raw.first.weights).not.toEqual(scaled.first.weights);
    edit(state, "h0.w_q", 0, 0, 3);
    expect(begin(lessonProblem(state)).scaled.first.weights).toEqual(
      state.worked.value.heads[0]?.weights,
    );
  });

  it("both go downhill at every step at the notes' d_k of 4", () => {
    const race = advanced(begin(lessonProblem(stateOf("notes"))), 10, 0.3, false);
    for (const { losses } of [race.raw, race.scaled]) {
      losses.slice(1).forEach((loss, n) => {
        expect(loss).toBeLessThan(losses[n] as number);
      });
    }
  });

  for (const seed of [1, 2, 3]) {
    it(`the unscaled one stalls at d_k = 1024, draw ${seed}`, () => {
      const race = advanced(begin(drawnProblem(1024, seed)), 10, 0.3, false);
      expect(rowsAlive(race.raw.first).dead).toBeGreaterThan(0);
      expect(rowsAlive(race.raw.first).median).toBeLessThan(
        0.3 * rowsAlive(race.scaled.first).median,
      );
      expect(rowsAlive(race.raw.first).largest).toBeGreaterThan(
        rowsAlive(race.scaled.first).largest,
      );
      const left = ({ losses }: typeof race.raw) =>
        (losses.at(-1) as number) / (losses[0] as number);
      expect(left(race.scaled)).toBeLessThan(0.6);
      expect(left(race.raw)).toBeGreaterThan(left(race.scaled));
    });
  }
});
