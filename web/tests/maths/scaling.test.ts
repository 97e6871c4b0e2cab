import { describe, expect, it } from "vitest";
import { Random } from "../../src/maths/random";
import { D_KS, quantile, ROWS, readRow, readScaling } from "../../src/maths/scaling";
import { entropy, softmax } from "../../src/maths/softmax";
import { vectors } from "./vectors";

describe("a row of the lab", () => {
  vectors.gradients.forEach((given) => {
    it(`at d_k = ${given.keys[0]?.length}, factor ${given.factor}`, () => {
      const keyed = Float64Array.from(given.keys.flat());
      given.scores.forEach((scores, r) => {
        const products = Float64Array.from(scores, (score) => score / given.factor);
        const upstream = Float64Array.from(given.upstream[r] ?? []);
        const row = readRow(products, upstream, keyed, given.factor);
        const wanted = Math.hypot(...(given.gradient[r] ?? []));
        expect(Math.abs(row.gradient / wanted - 1)).toBeLessThan(1e-9);
        expect(row.entropy).toBeCloseTo(entropy(softmax(scores)), 10);
        expect(row.largest).toBeCloseTo(Math.max(...(given.weights[r] ?? [])), 12);
      });
    });
  });
});

it("quantiles are numpy's", () => {
  for (const { sample, median, p99 } of vectors.quantiles) {
    expect(quantile(sample, 0.5)).toBeCloseTo(median, 12);
    expect(quantile(sample, 0.99)).toBeCloseTo(p99, 12);
  }
});

describe("resampled in the page", () => {
  const readings = D_KS.map((d_k) => readScaling(d_k, 1));

  it("the variance of the scores is d_k, and 1 where they are divided", () => {
    for (const { d_k, raw, scaled } of readings) {
      expect(Math.abs(raw.variance / d_k - 1)).toBeLessThan(0.15);
      expect(Math.abs(scaled.variance - 1)).toBeLessThan(0.15);
    }
  });

  it("at d_k = 1024 the median row vanishes while rare rows explode, unless divided", () => {
    const { raw, scaled } = readings.at(-1) as (typeof readings)[number];
    expect(raw.gradientMedian).toBeLessThan(5e-3);
    expect(raw.gradientP99).toBeGreaterThan(5);
    expect(raw.dead).toBeGreaterThan(0.4);
    expect(scaled.gradientMedian).toBeGreaterThan(0.2);
    expect(scaled.gradientMedian).toBeLessThan(0.35);
    expect(scaled.gradientP99).toBeLessThan(1);
    expect(scaled.dead).toBe(0);
  });

  it("the same seed gives the same reading, another one another", () => {
    expect(readScaling(8, 5)).toEqual(readScaling(8, 5));
    expect(readScaling(8, 5)).not.toEqual(readScaling(8, 6));
    expect(ROWS).toBeGreaterThanOrEqual(100);
  });
});

describe("the generator", () => {
  it("draws numbers of mean 0 and variance 1 that do not follow each other", () => {
    const drawn = new Random(3).normals(40_000);
    const mean = drawn.reduce((sum, value) => sum + value, 0) / drawn.length;
    const variance = drawn.reduce((sum, value) => sum + value * value, 0) / drawn.length;
    const lagged = drawn.reduce((sum, v, i) => sum + v * (drawn[i + 1] ?? 0), 0) / drawn.length;
    expect(Math.abs(mean)).toBeLessThan(0.02);
    expect(Math.abs(variance - 1)).toBeLessThan(0.03);
    expect(Math.abs(lagged)).toBeLessThan(0.02);
  });

  it("tells neighbouring seeds apart from the first number on", () => {
    const first = Array.from({ length: 100 }, (_, seed) => new Random(seed).uniform());
    expect(new Set(first).size).toBe(100);
    expect(Math.min(...first)).toBeLessThan(0.1);
    expect(Math.max(...first)).toBeGreaterThan(0.9);
  });
});
