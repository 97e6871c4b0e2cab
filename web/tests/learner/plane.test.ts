import { describe, expect, it } from "vitest";
import { frameOf, planeOf } from "../../src/learner/parts/plane";
import { visibleSpan } from "../../src/learner/parts/span";

describe("planeOf", () => {
  it("keeps lengths, angle and dot product", () => {
    const plane = planeOf([1, 0, 1, 0], [1, 1, 1, 1]);
    expect(plane?.degrees).toBeCloseTo(45, 9);
    expect(plane?.lengths).toEqual([Math.SQRT2, 2]);
    const [first, second] = [plane?.first ?? [0, 0], plane?.second ?? [0, 0]];
    expect(first[0] * second[0] + first[1] * second[1]).toBeCloseTo(2, 9);
  });

  it("knows right and opposite angles", () => {
    expect(planeOf([1, 0], [0, 3])?.degrees).toBeCloseTo(90, 9);
    expect(planeOf([1, 1], [-2, -2])?.degrees).toBeCloseTo(180, 9);
  });

  it("never leaves the cosine's range", () => {
    const v = [0.1, 0.2, 0.3];
    expect(planeOf(v, v)?.degrees).toBeCloseTo(0, 5);
  });

  it("has no direction for zero", () => {
    expect(planeOf([0, 0], [1, 2])).toBeNull();
  });
});

describe("frameOf", () => {
  const size = { width: 200, height: 100, margin: 10 };

  it("holds every point and the origin, with equal units", () => {
    const points = [
      [-3, 4],
      [5, -1],
    ] as const;
    const frame = frameOf(points, size);
    for (const point of [...points, [0, 0] as const]) {
      const [x, y] = frame.at(point);
      expect(x).toBeGreaterThanOrEqual(10 - 1e-9);
      expect(x).toBeLessThanOrEqual(190 + 1e-9);
      expect(y).toBeGreaterThanOrEqual(10 - 1e-9);
      expect(y).toBeLessThanOrEqual(90 + 1e-9);
    }
    expect(frame.at([1, 0])[0] - frame.at([0, 0])[0]).toBeCloseTo(frame.unit, 9);
    expect(frame.at([0, 0])[1] - frame.at([0, 1])[1]).toBeCloseTo(frame.unit, 9);
  });

  it("survives points that are all the origin", () => {
    expect(
      frameOf([[0, 0]], size)
        .at([0, 0])
        .every(Number.isFinite),
    ).toBe(true);
  });
});

describe("visibleSpan", () => {
  it("has what is seen and two more on either side", () => {
    expect(visibleSpan(320, 96, 32, 500)).toEqual({ first: 8, last: 15 });
  });
  it("ends at both ends", () => {
    expect(visibleSpan(0, 96, 32, 3)).toEqual({ first: 0, last: 3 });
    expect(visibleSpan(1e6, 96, 32, 500)).toEqual({ first: 500, last: 500 });
  });
});
