import { describe, expect, it } from "vitest";
import { givenOf } from "../../src/learner/data";
import { attendTo, rotaryScore } from "../../src/maths/attend";
import {
  allRows,
  cacheBytes,
  type HeadRows,
  largestDifference,
  rowFromCache,
  workOf,
} from "../../src/maths/cache";
import { type WorkedHead, workOut } from "../../src/maths/lesson";
import {
  byLargest,
  fallOf,
  heldBy,
  logitsOf,
  probabilitiesOf,
  tiedFirst,
} from "../../src/maths/nextWord";
import { exchangeTrial } from "../../src/maths/order";
import { expectClose, expectMatrix, vectors } from "./vectors";

describe("the next word", () => {
  it("is what Python's definition says", () => {
    expect(vectors.next.length).toBeGreaterThan(2);
    for (const { hidden, embeddings, temperature, logits, probabilities } of vectors.next) {
      const found = logitsOf(hidden, embeddings);
      expectClose(found, logits);
      expectClose(probabilitiesOf(found, temperature), probabilities);
    }
  });

  it("is the likeliest at temperature 0, and anything when it is hot", () => {
    expect(probabilitiesOf([1, 3, 3, 2], 0)).toEqual([0, 1, 0, 0]);
    for (const share of probabilitiesOf([1, 3, 3, 2], 1e6)) expect(share).toBeCloseTo(0.25, 5);
  });

  it("may be tied", () => {
    expect(tiedFirst([1, 3, 3 - 1e-12, 2])).toBe(2);
    expect(tiedFirst([1, 3, 2])).toBe(1);
  });

  it("is drawn by where a number falls", () => {
    const shares = [0.2, 0.5, 0.3];
    const order = byLargest(shares);
    expect(order).toEqual([1, 2, 0]);
    expect(fallOf(shares, order, 0.49).index).toBe(1);
    expect(fallOf(shares, order, 0.5).index).toBe(2);
    expect(fallOf(shares, order, 0.999999).index).toBe(0);
    expect(fallOf([1 / 3, 1 / 3, 1 / 3 - 1e-9], [0, 1, 2], 1 - 1e-12).index).toBe(2);
  });

  it("knows what a part of a vocabulary holds of the whole", () => {
    const all = [2, 1, 0, -1];
    const logSum = Math.log(all.reduce((sum, logit) => sum + Math.exp(logit), 0));
    expect(heldBy(all, logSum)).toBeCloseTo(1, 12);
    expect(heldBy(all.slice(0, 2), logSum)).toBeCloseTo(
      1 -
        probabilitiesOf(all, 1)
          .slice(2)
          .reduce((a, b) => a + b),
      12,
    );
  });
});

function headOf(name: string): WorkedHead {
  const data = vectors.lessons[name]?.data;
  if (!data) throw new Error(name);
  return workOut(givenOf(data)).heads[0] as WorkedHead;
}

describe("attention over a part or another sentence", () => {
  it("is the lesson's own where the two are the same", () => {
    const head = headOf("random");
    const found = attendTo(head.queries, head.keys, head.values, { scaled: true });
    expectMatrix(found.scaled, head.scaled);
    expectMatrix(found.weights, head.weights);
    expectMatrix(found.context, head.context);
  });

  it("is as wide as the other sentence", () => {
    const { queries, keys, values } = headOf("causal");
    const { weights, context } = attendTo(queries.slice(0, 2), keys, values, { scaled: true });
    expect([weights.length, weights[0]?.length]).toEqual([2, 6]);
    expect(context[0]?.length).toBe(values[0]?.length);
    for (const row of weights) expect(row.reduce((a, b) => a + b)).toBeCloseTo(1, 12);
  });
});

describe("a cache of keys and values", () => {
  it("gives every row of a causal head, and not those of one that looks ahead", () => {
    const head = headOf("causal");
    const rows: HeadRows = head;
    const ahead = allRows(rows, { scaled: true, causal: false }).context;
    expectMatrix(allRows(rows, { scaled: true, causal: true }).context, head.context);
    head.context.forEach((row, t) => {
      const cached = rowFromCache(rows, t, true);
      expect(largestDifference(cached, row)).toBeLessThan(1e-12);
      const isLast = t === head.context.length - 1;
      expect(largestDifference(cached, ahead[t] ?? []) < 1e-12).toBe(isLast);
    });
  });

  it("saves as many multiplications as are counted one by one", () => {
    const sizes = { width: 8, d_k: 4, d_v: 2 };
    let [without, withCache] = [0, 0];
    for (let t = 1; t <= 30; t += 1) {
      without += t * 8 * (4 + 4 + 2);
      for (let query = 1; query <= t; query += 1) without += query * (4 + 2);
      withCache += 8 * (4 + 4 + 2) + t * (4 + 2);
    }
    expect(workOf(30, sizes)).toEqual({ without, with: withCache });
  });

  it("takes two numbers per layer, key head, dimension and token", () => {
    expect(cacheBytes({ layers: 30, key_heads: 3, d: 64, bytes: 2 }, 8192)).toBe(188_743_680);
  });
});

describe("order", () => {
  it("changes nothing without positions, and something with them", () => {
    for (const name of ["made up", "random", "heads"]) {
      const data = vectors.lessons[name]?.data;
      if (!data) throw new Error(name);
      const given = givenOf(data);
      for (const change of exchangeTrial(given, 0, 2, false).changes)
        expect(change).toBeLessThan(1e-12);
      const { changes } = exchangeTrial(given, 0, 2, true);
      expect(Math.max(...changes)).toBeGreaterThan(1e-3);
    }
  });

  it("enters a rotated score by the distance alone", () => {
    const [q, k] = [[1, 0.5] as const, [-0.3, 2] as const];
    const near = rotaryScore(q, k, [3, 7], 0.4);
    expect(rotaryScore(q, k, [103, 107], 0.4)).toBeCloseTo(near, 10);
    expect(rotaryScore(q, k, [3, 8], 0.4)).not.toBeCloseTo(near, 2);
    expect(rotaryScore(q, k, [5, 5], 0.4)).toBeCloseTo(0.7, 12);
  });
});
