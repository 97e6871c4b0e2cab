import { describe, expect, it } from "vitest";
import { entropy, jacobian, jacobianNorm, softmax } from "../../src/maths/softmax";
import { expectClose, vectors } from "./vectors";

describe("one row of scores", () => {
  vectors.rows.forEach((row, n) => {
    it(`case ${n}: weights, entropy and the size of the Jacobian`, () => {
      const weights = softmax(row.scores);
      expectClose(weights, row.weights);
      expect(entropy(weights)).toBeCloseTo(row.entropy, 12);
      expect(jacobianNorm(weights)).toBeCloseTo(row.jacobian_norm, 12);
    });
  });

  it("that sees no key has no weights", () => {
    expect(softmax([Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY])).toEqual([0, 0]);
  });

  it("answers to its scores as its Jacobian says", () => {
    const scores = [0.3, -1.2, 0.9];
    const slope = jacobian(softmax(scores));
    const h = 1e-6;
    scores.forEach((_, j) => {
      const moved = (by: number) => softmax(scores.map((s, n) => (n === j ? s + by : s)));
      const [up, down] = [moved(h), moved(-h)];
      scores.forEach((__, i) => {
        const measured = ((up[i] as number) - (down[i] as number)) / (2 * h);
        expect(measured).toBeCloseTo(slope[i]?.[j] as number, 8);
      });
    });
  });
});
