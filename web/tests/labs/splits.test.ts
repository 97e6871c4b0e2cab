import { describe, expect, it } from "vitest";
import { drawnSplits, parametersOf } from "../../src/learner/labs/splits";
import { beside } from "../../src/maths/lesson";
import { stateOf } from "./state";

describe("the same parameters in 1, 2 and 4 heads", () => {
  const own = stateOf("notes").lesson.splits;

  it("are as many for the lesson's own and for random ones", () => {
    for (const splits of [own, drawnSplits(own, 1)]) {
      expect(splits.map((split) => split.heads.length)).toEqual([1, 2, 4]);
      expect(splits.map(parametersOf)).toEqual([64, 64, 64]);
    }
  });

  it("are the very same numbers, cut into columns", () => {
    const [one, two, four] = drawnSplits(own, 1);
    for (const name of ["w_q", "w_k", "w_v"] as const) {
      const joined = [one, two, four].map((split) =>
        beside(split?.heads.map((h) => h[name]) ?? []),
      );
      expect(joined[1]).toEqual(joined[0]);
      expect(joined[2]).toEqual(joined[0]);
    }
  });
});
