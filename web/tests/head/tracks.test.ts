import { describe, expect, it } from "vitest";
import {
  heightOf,
  heights,
  isSpiky,
  largestPoints,
  pointAt,
  readingAt,
  readingOf,
  sinkKeys,
} from "../../src/engineer/head/trackMaths";
import type { Track } from "../../src/source/answers";

const track: Track = {
  words: "received",
  edges: [2, 4, 8, 9],
  mean: [1, 3, null],
  largest: [2, 9, null],
};

describe("a track", () => {
  it("finds the point of a token", () => {
    expect([1, 2, 3, 4, 7, 8].map((n) => pointAt(track, n))).toEqual([-1, 0, 0, 1, 1, 2]);
    expect(readingAt(track, 1)).toBeNull();
    expect(readingAt(track, 9)).toBeNull();
    expect(readingAt(track, 5)).toEqual({ mean: 3, largest: 9, tokens: [4, 8] });
  });

  it("takes the mean of a pixel by tokens and the largest of all", () => {
    expect(readingOf(track, 2, 6)).toMatchObject({ mean: 2, largest: 9 });
    expect(readingOf(track, 3.5, 4.5)).toMatchObject({ mean: 2, largest: 9 });
    expect(readingOf(track, 0, 1)).toBeNull();
    expect(readingOf(track, 8, 9)).toBeNull();
  });

  it("has heights from 0, or along a log scale from where nearly all are above", () => {
    expect(heights(track, false, () => true)).toEqual({ low: 0, high: 9, log: false });
    expect(heights(track, false, (token) => token < 4).high).toBe(2);
    const log = heights(track, true, () => true);
    expect(log).toEqual({ low: 0.5, high: 9, log: true });
    expect([0, 0.5, 9, 99].map((value) => heightOf(value, log))).toEqual([0, 0, 1, 1]);
    expect(heightOf(Math.sqrt(4.5), log)).toBeCloseTo(0.5, 12);
  });

  it("is spiky when one point dwarfs the others", () => {
    const even = { ...track, edges: [0, 1, 2, 3, 4], mean: [1, 1, 1, 1], largest: [1, 1, 1, 1] };
    expect(isSpiky(even)).toBe(false);
    expect(isSpiky({ ...even, largest: [1, 1, 1, 40] })).toBe(true);
    expect(
      largestPoints({ ...even, largest: [1, 5, 1, 40] }, 2).map((one) => one.tokens[0]),
    ).toEqual([3, 1]);
  });

  it("finds sinks by what they get of the rows that see them", () => {
    const edges = Array.from({ length: 101 }, (_, n) => n);
    const mean = edges.slice(1).map((_, n) => (n === 50 ? 20 : 0.5));
    const received: Track = { words: "", edges, mean, largest: mean };
    expect(sinkKeys(received, [0, 100], true)).toEqual([0, 50]);
    expect(sinkKeys(received, [0, 100], false)).toEqual([0]);
    expect(sinkKeys(null, [0, 100], true)).toEqual([0]);
  });
});
