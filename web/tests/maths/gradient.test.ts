import { describe, expect, it } from "vitest";
import { answerToProducts, throughSoftmax } from "../../src/maths/gradient";
import { dot, type Vector } from "../../src/maths/matrix";
import { softmax } from "../../src/maths/softmax";
import { expectClose, vectors } from "./vectors";

describe("the gradient that reaches q", () => {
  vectors.gradients.forEach((given) => {
    const d_k = given.keys[0]?.length;
    it(`at d_k = ${d_k}, factor ${given.factor}`, () => {
      given.scores.forEach((scores, r) => {
        const weights = softmax(scores);
        const atScores = throughSoftmax(weights, given.upstream[r] as Vector);
        const columns = (given.gradient[r] as Vector).map((_, c) =>
          given.keys.map((key) => given.factor * (key[c] as number)),
        );
        expectClose(weights, given.weights[r] as Vector);
        expectClose(
          columns.map((one) => dot(atScores, one)),
          given.gradient[r] as Vector,
        );
      });
    });
  });
});

it("the note's example: the slope at q·k is 0.105 as it is and 0.098 divided", () => {
  vectors.temperature.forEach(({ scores, weights, slope }, n) => {
    const found = softmax(scores);
    expectClose(found, weights);
    // two keys: every entry of the Jacobian has the size p₁ p₂
    expect(answerToProducts(found, 4, n === 1) / 2).toBeCloseTo(slope, 12);
  });
});
