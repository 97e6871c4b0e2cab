import { describe, expect, it } from "vitest";
import type { Projections } from "../../src/maths/lesson";
import { map, multiply } from "../../src/maths/matrix";
import { Random } from "../../src/maths/random";
import { fetchTargets, run, step } from "../../src/maths/training";

const random = new Random(11);
const x = random.matrix(4, 3);
const head: Projections = {
  w_q: random.matrix(3, 5, 0.6),
  w_k: random.matrix(3, 5, 0.6),
  w_v: random.matrix(3, 2, 0.6),
};
const targets = random.matrix(4, 2);

describe("gradients agree with finite differences", () => {
  for (const scaled of [true, false]) {
    for (const causal of [true, false]) {
      for (const name of ["w_q", "w_k", "w_v"] as const) {
        it(`${name}, ${scaled ? "divided" : "as it is"}${causal ? ", causal" : ""}`, () => {
          const task = { x, targets, scaled, causal };
          const { gradients } = run(head, task);
          const h = 1e-6;
          head[name].forEach((row, r) => {
            row.forEach((_, c) => {
              const nudged = (by: number) =>
                run(
                  {
                    ...head,
                    [name]: map(head[name], (v, i, j) => (i === r && j === c ? v + by : v)),
                  },
                  task,
                ).loss;
              const slope = (nudged(h) - nudged(-h)) / (2 * h);
              expect(gradients[name][r]?.[c]).toBeCloseTo(slope, 8);
            });
          });
        });
      }
    }
  }
});

describe("one step", () => {
  const task = { x, targets, scaled: true, causal: false };

  it("goes downhill", () => {
    const before = run(head, task);
    const after = run(step(head, before, 0.05), task);
    expect(after.loss).toBeLessThan(before.loss);
  });

  it("leaves w_v alone unless it learns too", () => {
    const before = run(head, task);
    expect(step(head, before, 0.1).w_v).toBe(head.w_v);
    expect(step(head, before, 0.1, true).w_v).not.toEqual(head.w_v);
  });
});

describe("targets", () => {
  const values = multiply(x, head.w_v);

  it("are the next token's value, and under a causal mask that of the one before", () => {
    expect(fetchTargets(values, false)).toEqual([values[1], values[2], values[3], values[0]]);
    expect(fetchTargets(values, true)).toEqual([values[0], values[0], values[1], values[2]]);
  });
});
