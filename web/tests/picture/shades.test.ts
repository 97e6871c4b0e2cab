import { describe, expect, it } from "vitest";
import { niceStep, pathOf } from "../../src/engineer/picture/Curve";
import {
  contour,
  heaviestOf,
  levelsOf,
  massOf,
  pixels,
  weightScale,
} from "../../src/engineer/picture/shades";
import type { Scale } from "../../src/source/answers";

const TIMES: Scale = {
  ...{ name: "× even share", low: 0.1, high: 100, top: 50, log: true },
  ...{ hidden: 0, first: 1, last: 255 },
};

describe("colours over a picture", () => {
  it("leave out what is hidden and what is no number", () => {
    const values = Float32Array.of(1, Number.NaN, Number.POSITIVE_INFINITY, 50);
    const found = pixels(values, TIMES, "patches", 0.5);
    expect([found[3], found[7], found[11], found[15]]).toEqual([128, 0, 0, 128]);
    const heat = pixels(values, TIMES, "heat", 0.5);
    expect(heat[3]).toBeLessThan(heat[15] as number);
  });

  it("by weight end at the largest that is shown", () => {
    const scale = weightScale(Float32Array.of(0.1, Number.NaN, 0.4), TIMES);
    expect([scale.low, scale.log]).toEqual([0, false]);
    expect(scale.high).toBeCloseTo(0.4);
    expect(levelsOf(scale)[3]).toBeCloseTo(0.32);
    expect(levelsOf(TIMES)).toEqual([1, 2, 4, 8, 16, 32]);
  });
});

describe("a contour", () => {
  it("goes round a peak at the level, between the middles of patches", () => {
    const values = Float32Array.of(0, 0, 0, 0, 1, 0, 0, 0, 0);
    const lines = contour(values, 3, 3, 0.5);
    expect(lines).toHaveLength(4);
    for (const [x1, y1, x2, y2] of lines) {
      expect(Math.abs(x1 - 1.5) + Math.abs(y1 - 1.5)).toBeCloseTo(0.5);
      expect(Math.abs(x2 - 1.5) + Math.abs(y2 - 1.5)).toBeCloseTo(0.5);
    }
  });

  it("leaves out squares with a hidden corner", () => {
    const values = Float32Array.of(0, 0, Number.NaN, 0, 1, 0, 0, 0, 0);
    expect(contour(values, 3, 3, 0.5)).toHaveLength(3);
  });
});

describe("what is said of a row", () => {
  it("counts what may be seen", () => {
    const weights = Float32Array.of(0.25, Number.NaN, 0.5, Number.POSITIVE_INFINITY);
    expect(heaviestOf(weights)).toEqual({ position: 2, weight: 0.5 });
    expect(heaviestOf(Float32Array.of(Number.NaN))).toBeNull();
    expect(massOf(weights, 0, 4)).toBe(0.75);
  });

  it("is a line over seconds that is broken where nothing is known", () => {
    const part = {
      start: 0,
      count: 3,
      kind: "frames",
      what: "",
      grid: null,
      moments: null,
    } as const;
    expect(pathOf(Float32Array.of(1, Number.NaN, 0), part, 30)).toBe("M5.0 1.0M25.0 121.0");
    expect([0.3, 0.7, 1, 12].map(niceStep)).toEqual([0.5, 1, 1, 20]);
  });
});
