import { describe, expect, it } from "vitest";
import { axisOf, placedNames, powerText, shareBetween } from "../../src/learner/labs/axis";
import type { Line } from "../../src/learner/labs/Chart";

const line = (name: string, end: number): Line => ({ name, look: "raw", points: [[1, end]] });

describe("an axis", () => {
  it("holds all values between round ends", () => {
    expect(axisOf([0.02, 30], true).ends).toEqual([0.01, 100]);
    expect(axisOf([1, 6.2], false).ends).toEqual([0, 7]);
  });

  it("stands even where there is nothing above 0", () => {
    for (const log of [true, false]) {
      const { ends } = axisOf([0], log);
      expect(ends[1]).toBeGreaterThan(ends[0]);
    }
  });

  it("is even in powers on a log axis", () => {
    expect(shareBetween(10, [1, 100], true)).toBeCloseTo(0.5, 12);
    expect(shareBetween(50, [0, 100], false)).toBe(0.5);
  });

  it("writes powers of ten shortly", () => {
    expect([0, 0.01, 1, 100, 1e-4].map(powerText)).toEqual(["0", "0.01", "1", "100", "10⁻⁴"]);
  });
});

describe("names at the lines' ends", () => {
  it("do not cover each other and stay inside", () => {
    const lines = [line("a", 100), line("b", 101), line("c", 199), line("d", 200)];
    const ys = placedNames(lines, (y) => y, 0, 200).map(({ y }) => y);
    ys.slice(1).forEach((y, n) => {
      expect(y - (ys[n] as number)).toBeGreaterThanOrEqual(14.9);
    });
    expect(Math.max(...ys)).toBeLessThanOrEqual(200);
  });
});
