import { describe, expect, it } from "vitest";
import { maskedRow } from "../../src/learner/labs/MaskPlace";
import { entryAt } from "../../src/learner/labs/Shapes";
import { together } from "../../src/learner/labs/TwoMatrices";
import { lookup } from "../../src/maths/lookup";
import { multiply, transpose } from "../../src/maths/matrix";
import { Random } from "../../src/maths/random";
import { rank } from "../../src/maths/rank";

const sum = (row: readonly number[]) => row.reduce((total, one) => total + one, 0);

describe("two matrices and their product", () => {
  const random = new Random(3, 5);
  const [w_q, w_k, x] = [random.matrix(5, 3), random.matrix(5, 3), random.matrix(4, 5)];

  it("give the same scores", () => {
    const scores = multiply(multiply(x, w_q), transpose(multiply(x, w_k)));
    const other = multiply(multiply(x, together(w_q, w_k, 3)), transpose(x));
    for (const [r, row] of scores.entries()) {
      for (const [c, score] of row.entries()) expect(other[r]?.[c]).toBeCloseTo(score, 10);
    }
  });

  it("have the rank of their width, and are symmetric where they are equal", () => {
    for (const width of [1, 2, 3]) expect(rank(together(w_q, w_k, width))).toBe(width);
    const same = together(w_q, w_q, 3);
    expect(same).toEqual(transpose(same));
    expect(
      rank([
        [0, 0],
        [0, 0],
      ]),
    ).toBe(0);
    expect(
      rank([
        [1, 2],
        [2, 4],
      ]),
    ).toBe(1);
    expect(
      rank([
        [0, 1],
        [1, 0],
        [1, 1],
      ]),
    ).toBe(2);
  });
});

describe("a lookup", () => {
  it("goes from the mean to the best key; hidden keys get nothing on the way", () => {
    const scores = [1, 3, Number.NEGATIVE_INFINITY, 2];
    expect(lookup(scores, 0)).toEqual([1 / 3, 1 / 3, 0, 1 / 3]);
    expect(lookup(scores, Number.POSITIVE_INFINITY)).toEqual([0, 1, 0, 0]);
    expect(lookup([2, 1, 2], Number.POSITIVE_INFINITY)).toEqual([0.5, 0, 0.5]);
    const most = [0, 0.5, 1, 4, 16].map((sharpness) => lookup(scores, sharpness)[1] ?? 0);
    expect(most).toEqual([...most].sort((a, b) => a - b));
  });
});

describe("a mask", () => {
  const scores = [1, 2, 3, 0.5];
  const raised = [1, 2, 5, 2.5];

  it("before softmax hides: weights sum to 1 and know nothing of what is hidden", () => {
    const weights = maskedRow(scores, 2, "before");
    expect(sum(weights)).toBeCloseTo(1, 12);
    expect(weights.slice(2)).toEqual([0, 0]);
    expect(maskedRow(raised, 2, "before")).toEqual(weights);
  });

  it("elsewhere does not", () => {
    expect(sum(maskedRow(scores, 2, "after"))).toBeLessThan(0.5);
    expect(maskedRow(raised, 2, "after")[0]).not.toBeCloseTo(maskedRow(scores, 2, "after")[0] ?? 0);
    expect(maskedRow(scores, 2, "zero")[3]).toBeGreaterThan(0);
  });
});

describe("heads", () => {
  const tokens = (way: "transposed" | "viewed", head: number) =>
    [0, 1, 2].map((row) => [0, 1].map((column) => entryAt(way, head, row, column).token));

  it("have token i in row i after view and transpose, and not after view alone", () => {
    for (const head of [0, 1])
      expect(tokens("transposed", head)).toEqual([
        [0, 0],
        [1, 1],
        [2, 2],
      ]);
    expect(tokens("viewed", 0)).toEqual([
      [0, 0],
      [0, 0],
      [1, 1],
    ]);
    const all = [0, 1].flatMap((head) =>
      [0, 1, 2].flatMap((row) => [0, 1].map((column) => entryAt("viewed", head, row, column))),
    );
    expect(new Set(all.map(({ token, feature }) => `${token}/${feature}`)).size).toBe(12);
  });
});
