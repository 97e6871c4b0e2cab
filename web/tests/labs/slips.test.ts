import { describe, expect, it } from "vitest";
import { fitsNote, slipped } from "../../src/learner/labs/CountedTwice";

describe("what was counted twice", () => {
  it("each term once gives the right output", () => {
    const right = slipped(undefined);
    expect(right.map((value) => value.toFixed(4))).toEqual([
      "0.8446",
      "0.5777",
      "0.8446",
      "0.5777",
    ]);
    expect(fitsNote(right)).toBe(false);
  });

  it("three slips fit alike, so they cannot be told apart", () => {
    for (const slip of ["value", "weight", "addition"] as const) {
      expect(fitsNote(slipped(slip))).toBe(true);
      expect(slipped(slip)).toEqual(slipped("value"));
    }
  });

  it("the others do not fit", () => {
    for (const slip of ["the", "cat", "scaling"] as const)
      expect(fitsNote(slipped(slip))).toBe(false);
  });
});
