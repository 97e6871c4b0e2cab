import { describe, expect, it } from "vitest";
import { answerToProducts, gradientAtQuery } from "../../src/maths/gradient";
import type { Vector } from "../../src/maths/matrix";
import { softmax } from "../../src/maths/softmax";
import { expectClose, vectors } from "./vectors";

describe("the gradient that reaches q", () => {
  vectors.gradients.forEach((given) => {
    const d_k = given.keys[0]?.length;
    it(`at d_k = ${d_k}, factor ${given.factor}`, () => {
      given.scores.forEach((scores, r) => {
        const found = gradientAtQuery(
          scores,
          given.upstream[r] as Vector,
          given.keys,
          given.factor,
        );
        expectClose(found.weights, given.weights[r] as Vector);
        expectClose(found.gradient, given.gradient[r] as Vector);
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
