import { describe, expect, it } from "vitest";
import { PALETTE } from "../../src/colour/palette";
import { shareOf } from "../../src/colour/scale";
import {
  codeOf,
  linearInk,
  linearTop,
  logInk,
  RAW_SCALE,
  rgbOf,
} from "../../src/engineer/head/inks";
import { ticks } from "../../src/parts/Legend";
import type { Scale } from "../../src/source/answers";

const scale: Scale = {
  ...{ name: "× even share", low: 0.1, high: 100, log: true },
  ...{ hidden: 0, first: 1, last: 255 },
};
const bytes = (word: number | undefined) => [
  ...new Uint8Array(new Uint32Array([word ?? 0]).buffer),
];

describe("inks", () => {
  it("gives each code its colour of the palette, opaque, and hidden its own", () => {
    const ink = logInk(scale, [1, 2, 3]);
    expect(bytes(ink.words[0])).toEqual([1, 2, 3, 255]);
    expect(bytes(ink.words[1])).toEqual([...(PALETTE[0] ?? []), 255]);
    expect(bytes(ink.words[255])).toEqual([...(PALETTE[255] ?? []), 255]);
    expect(bytes(ink.words[128])).toEqual([...(PALETTE[128] ?? []), 255]);
  });

  it("spends all colours on what so few keys can reach", () => {
    const few = { ...scale, top: 5 };
    const ink = logInk(few, [1, 2, 3]);
    expect(bytes(ink.words[codeOf(5, few)])).toEqual([...(PALETTE[255] ?? []), 255]);
    expect(bytes(ink.words[1])).toEqual([...(PALETTE[0] ?? []), 255]);
    expect(shareOf(4, few)).toBeGreaterThan(0.9);
    expect(ticks(few).map((one) => one[1])).toEqual(["≤ 0.1", "1", "≥ 5"]);
    expect(ticks(scale).map((one) => one[1])).toEqual(["≤ 0.1", "1", "10", "≥ 100"]);
    expect(linearTop(255, few)).toBe(5);
  });

  it("shows the same codes along a linear scale", () => {
    const ink = linearInk(scale, [0, 0, 0], 100);
    expect(bytes(ink.words[255])).toEqual([...(PALETTE[255] ?? []), 255]);
    expect(bytes(ink.words[1])).toEqual([...(PALETTE[Math.round(0.001 * 255)] ?? []), 255]);
    expect(ink.scale).toMatchObject({ log: false, low: 0, high: 100 });
    expect(ink.name).not.toBe(linearInk(scale, [0, 0, 0], 20).name);
  });

  it("ends a linear scale at a round number above the largest in view", () => {
    expect(linearTop(codeOf(3.1, scale), scale)).toBe(5);
    expect(linearTop(codeOf(100, scale), scale)).toBe(100);
    expect(linearTop(0, scale)).toBeCloseTo(0.1, 9);
  });

  it("codes weights as the server codes multiples of uniform", () => {
    expect(codeOf(Number.NaN, RAW_SCALE)).toBe(0);
    expect(codeOf(0, RAW_SCALE)).toBe(1);
    expect(codeOf(1e-4, RAW_SCALE)).toBe(1);
    expect(codeOf(1e-2, RAW_SCALE)).toBe(128);
    expect(codeOf(1, RAW_SCALE)).toBe(255);
    expect(codeOf(2, RAW_SCALE)).toBe(255);
  });

  it("reads the style sheet's colours", () => {
    expect(rgbOf(" #e9e9e4")).toEqual([233, 233, 228]);
    expect(rgbOf("nothing")).toEqual(PALETTE[0]);
  });
});
