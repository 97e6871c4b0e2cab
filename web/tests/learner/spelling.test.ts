import { describe, expect, it } from "vitest";
import { listed } from "../../src/learner/language";
import { dims, rowKeys, shiftOf, spellProducts } from "../../src/learner/parts/spelling";

const HIDDEN = Number.NEGATIVE_INFINITY;

describe("spellProducts", () => {
  it("has every term of a short sum", () => {
    const { first, between, last } = spellProducts([1, 0, 1, 0], [1, 2, 3, 4]);
    expect(first.map((term) => `${term.left}·${term.right}`)).toEqual(["1·1", "0·2", "1·3", "0·4"]);
    expect([between, last]).toEqual([0, []]);
  });

  it("leaves the middle of a long one out and counts it", () => {
    const many = Array.from({ length: 64 }, (_, i) => i);
    const { first, between, last } = spellProducts(many, many);
    expect(first.length + between + last.length).toBe(64);
    expect(last).toEqual([{ left: 63, right: 63 }]);
  });
});

describe("rowKeys", () => {
  it("keeps all keys of a short row and tells the hidden ones", () => {
    expect(rowKeys([1, 0, HIDDEN], [0.7, 0.3, 0], 0)).toEqual({
      kept: [0, 1],
      rest: [],
      hidden: [2],
    });
  });

  it("keeps the strongest and its own of a long row, in order", () => {
    const weights = Array.from({ length: 40 }, (_, j) => j);
    const { kept, rest, hidden } = rowKeys(weights, weights, 3);
    expect(kept).toEqual([3, 32, 33, 34, 35, 36, 37, 38, 39]);
    expect(kept.length + rest.length).toBe(40);
    expect(hidden).toEqual([]);
  });
});

describe("shiftOf", () => {
  it("is 0 where every power can be read", () => {
    expect(shiftOf([1, -2, HIDDEN])).toBe(0);
  });
  it("is the largest score where one cannot", () => {
    expect(shiftOf([800, 790, HIDDEN])).toBe(800);
    expect(shiftOf([-800, -790])).toBe(-790);
  });
});

it("names dimensions", () => {
  expect(dims("q", 3)).toEqual(["q1", "q2", "q3"]);
});

it("lists names", () => {
  expect(listed(["a"])).toBe("a");
  expect(listed(["a", "b", "c"])).toBe("a, b and c");
  expect(listed(dims("w", 9))).toBe("w1, w2, w3, w4, w5, w6 and 3 more");
});
