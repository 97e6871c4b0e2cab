import { describe, expect, it } from "vitest";
import { numbers, split } from "../../src/source/codec";
import { heaviest } from "../../src/source/head";
import { codeOf, cut, shrunk, stretched } from "../../src/source/pixels";
import { Rows } from "../../src/source/rows";

const SCALE = {
  name: "× even share",
  low: 0.1,
  high: 100,
  log: true,
  hidden: 0,
  first: 1,
  last: 255,
};

describe("numbers", () => {
  it("come back from byte planes", () => {
    const given = new Float32Array([0.25, -3, Number.NaN]);
    const bytes = new Uint8Array(given.buffer);
    const planes = new Uint8Array(12).map((_, n) => bytes[4 * (n % 3) + Math.floor(n / 3)] ?? 0);
    expect(numbers(planes, { name: "a", form: "exact", count: 3 })).toEqual(given);
  });

  it("come back from multiples of a step, the last code being none", () => {
    const planes = new Uint8Array([1, 255, 2, 255, 0, 255]);
    const found = numbers(planes, { name: "a", form: "rounded", count: 2, step: 0.5 });
    expect([...found]).toEqual([(1 + 2 * 256) * 0.5, Number.NaN]);
  });

  it("lie one part behind the other", () => {
    const parts = [
      { name: "a", form: "rounded", count: 1, step: 1 },
      { name: "b", form: "codes", count: 2, size: [1, 2] },
    ] as const;
    const found = split(new Uint8Array([1, 0, 0, 7, 8]), parts);
    expect([...(found.get("b") ?? [])]).toEqual([7, 8]);
  });
});

describe("rows", () => {
  const sight = { span: null, rows: [2, 5], counts: [1, 2], edges: [0, 2, 0, 1, 3, 4] };
  const rows = new Rows(sight, new Float32Array([0.1, 0.9, 0.2, 0.8]));

  it("are those that are carried", () => {
    expect([rows.has(2), rows.has(3), rows.visible(5)]).toEqual([true, false, 2]);
  });

  it("are NaN where they may not look", () => {
    const found = new Float32Array(4);
    rows.fill(5, 0, 4, found);
    expect([...found].map((value) => value.toFixed(1))).toEqual(["0.2", "NaN", "NaN", "0.8"]);
  });

  it("have heaviest keys, the lower of equal ones first", () => {
    const weights = new Float32Array([0.25, Number.NaN, 0.5, 0.25, 0]);
    expect(heaviest(weights, 9)).toEqual([2, 0, 3]);
    expect(heaviest(weights, 1)).toEqual([2]);
  });
});

describe("pixels", () => {
  it("have codes that are clamped at both ends", () => {
    expect([0, 0.1, 100, 1e9].map((times) => codeOf(times, SCALE))).toEqual([1, 1, 255, 255]);
  });

  it("are hidden beyond the edge of a map", () => {
    const found = cut(new Uint8Array([1, 2, 3, 4, 5, 6]), [2, 3], 2, { y: 0, x: 1 }, 0);
    expect([...found]).toEqual([3, 0, 6, 0]);
  });

  it("are averaged by what they stand for, and repeated", () => {
    const [low, high] = [codeOf(1, SCALE), codeOf(3, SCALE)];
    const small = shrunk(new Uint8Array([low, high, 0, 0]), [2, 2], [2, 1], SCALE);
    expect(Math.abs((small[0] ?? 0) - codeOf(2, SCALE))).toBeLessThanOrEqual(1);
    expect(small[1]).toBe(0);
    expect([...stretched(small, [2, 1], 2)]).toEqual([small[0], small[0], 0, 0]);
  });
});
