import { describe, expect, it } from "vitest";
import { barOf } from "../../src/learner/story/FeatureBars";
import { OWN, pairIn } from "../../src/learner/story/pairPlace";
import { PAIRS } from "../../src/learner/story/pairs";

describe("a feature's bar", () => {
  it("begins at the left where nothing is negative", () => {
    expect(barOf(1, { low: 0, high: 2 })).toEqual({ left: 0, width: 50 });
  });

  it("goes to the left of zero for a negative number", () => {
    const range = { low: -1, high: 3 };
    expect(barOf(-1, range)).toEqual({ left: 0, width: 25 });
    expect(barOf(3, range)).toEqual({ left: 25, width: 75 });
  });
});

describe("the pair of an address", () => {
  it("is the first that is offered, another, or one's own", () => {
    expect(pairIn({}).sentences).toEqual(PAIRS[0]?.sentences);
    expect(pairIn({ pair: "1" }).word).toBe("it");
    expect(pairIn({ pair: "7" }).number).toBe(0);
    const own = pairIn({ first: "A cat", second: "", word: "cat" });
    expect(own).toEqual({ number: OWN, word: "cat", sentences: ["A cat", ""] });
  });
});
