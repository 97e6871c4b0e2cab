import { describe, expect, it } from "vitest";
import { mostUneven } from "../../src/learner/labs/TwoMatrices";

describe("the pair that is shown both ways", () => {
  it("differs most with the token that is spelt out", () => {
    const scores = [
      [1, 5, 2],
      [1, 0, 9],
      [2, 0, 3],
    ];
    expect(mostUneven(scores, 0)).toEqual([0, 1]);
    expect(mostUneven(scores, 2)).toEqual([2, 1]);
  });

  it("is another one where that token's scores are the same both ways", () => {
    const scores = [
      [1, 2, 2],
      [2, 0, 8],
      [2, 2, 3],
    ];
    expect(mostUneven(scores, 0)).toEqual([1, 2]);
  });

  it("is never a token and itself while there is another", () => {
    expect(
      mostUneven(
        [
          [1, 2],
          [2, 1],
        ],
        1,
      ),
    ).toEqual([1, 0]);
    expect(mostUneven([[1]], 0)).toEqual([0, 0]);
  });
});
