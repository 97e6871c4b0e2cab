import { describe, expect, it } from "vitest";
import { arcsOf, placeOn } from "../../src/engineer/row/Arcs";
import { massLine, massWords } from "../../src/engineer/row/Cumulative";
import { CHUNK, estimate, Heights } from "../../src/engineer/row/chunks";
import { keysHolding, massOf, seenSpan } from "../../src/engineer/row/mass";
import { rowBeside } from "../../src/engineer/row/rowAnswers";
import { textStyle } from "../../src/engineer/row/textStyle";
import type { HeadFacts } from "../../src/source/answers";

const weights = new Float32Array([0.125, Number.NaN, 0.5, 0, 0.25, 0.125, Number.NaN]);

describe("a row's mass", () => {
  it("is summed from the heaviest key on, without hidden ones", () => {
    const mass = massOf(weights);
    expect([...mass.sorted]).toEqual([0.5, 0.25, 0.125, 0.125, 0]);
    expect([...mass.sums]).toEqual([0.5, 0.75, 0.875, 1, 1]);
    expect(mass.entropy).toBeCloseTo(1.75 * Math.log(2), 12);
  });

  it("tells how many keys hold a share", () => {
    const mass = massOf(weights);
    expect([0.5, 0.51, 0.9, 1].map((share) => keysHolding(mass, share))).toEqual([1, 2, 4, 4]);
    expect(massWords(mass)).toBe(
      "1 key holds 50\u00a0%, 4 keys hold 90\u00a0%, 4 keys hold 99\u00a0%",
    );
    expect(keysHolding(massOf(new Float32Array()), 0.5)).toBe(0);
    expect(keysHolding(massOf(new Float32Array([Number.NaN])), 0.5)).toBe(0);
  });

  it("leaves out what is no number, and counts it", () => {
    const broken = massOf(new Float32Array([0.5, Number.POSITIVE_INFINITY, Number.NaN, 0.25]));
    expect([broken.total, broken.broken]).toEqual([0.75, 1]);
    expect(massOf(weights).broken).toBe(0);
    expect(seenSpan(new Float32Array([Number.NaN, Number.POSITIVE_INFINITY]))).toEqual([1, 2]);
  });

  it("draws one point for each number of keys", () => {
    expect(massLine(massOf(weights)).split(" ")).toHaveLength(5);
  });

  it("knows the keys that are seen", () => {
    expect(seenSpan(weights)).toEqual([0, 6]);
    expect(seenSpan(new Float32Array([Number.NaN, 1, Number.NaN]))).toEqual([1, 2]);
    expect(seenSpan(new Float32Array([Number.NaN]))).toEqual([0, 0]);
  });
});

describe("the rows beside a row", () => {
  const head = { recorded: [2, 6] } as unknown as HeadFacts;

  it("are its neighbours", () => {
    expect([rowBeside(head, 3, -1), rowBeside(head, 3, 1)]).toEqual([2, 4]);
    expect([rowBeside(head, 2, -1), rowBeside(head, 5, 1)]).toEqual([null, null]);
  });

  it("are the next ones that a file carries, from any row", () => {
    const some = { ...head, rows: [2, 5, 90] };
    expect([rowBeside(some, 5, -1), rowBeside(some, 5, 1), rowBeside(some, 90, 1)]).toEqual([
      2,
      90,
      null,
    ]);
    expect([rowBeside(some, 7, -1), rowBeside(some, 7, 1)]).toEqual([5, 90]);
  });
});

describe("the text in pieces", () => {
  const page = { letters: 10, line: 20 };

  it("estimates heights from letters and line breaks", () => {
    expect(estimate(["abcd", " efgh"], page)).toBe(20);
    expect(estimate(["abcd", " efgh", " ijkl"], page)).toBe(40);
    expect(estimate(["a\n", "b\n\n", "c"], page)).toBe(80);
    expect(estimate(new Array(CHUNK), page)).toBe(20 * Math.ceil((CHUNK * 4.6) / 10));
  });

  it("knows where each piece begins, and learns", () => {
    const heights = new Heights(4, 100);
    expect([heights.top(0), heights.top(3), heights.total]).toEqual([0, 300, 400]);
    expect(heights.set(1, 150)).toBe(50);
    expect([heights.top(2), heights.total]).toEqual([250, 450]);
    expect(heights.within(0, 50)).toEqual([0, 1]);
    expect(heights.within(120, 200)).toEqual([1, 3]);
    expect(heights.within(-500, 550)).toEqual([0, 1]);
    expect(heights.within(9999, 50)).toEqual([3, 4]);
    expect(new Heights(0, 1).within(0, 50)).toEqual([0, 0]);
  });
});

describe("arcs", () => {
  const top = [
    { key: 2, weight: 0.7 },
    { key: 9, weight: 0.1 },
  ];

  it("go from the query to its keys, the heaviest drawn last and thickest", () => {
    const scene = { span: [0, 10] as const, query: 9, top };
    const arcs = arcsOf(scene, 400);
    expect(arcs.map((arc) => arc.key)).toEqual([9, 2]);
    expect(arcs[1]?.width).toBeGreaterThan(arcs[0]?.width ?? 0);
    expect(arcs[1]?.path.startsWith(`M ${placeOn(9, scene, 400).toFixed(1)} `)).toBe(true);
    expect(arcs[1]?.path).toContain(placeOn(2, scene, 400).toFixed(1));
  });

  it("fall from above where the query is of another text", () => {
    const [arc] = arcsOf({ span: [0, 10], query: null, top }, 400);
    expect(arc?.path.startsWith("M 200.0 8 L ")).toBe(true);
  });
});

describe("the text of a row", () => {
  const lightness = (share: number, on: "light" | "dark") => {
    const [, ...rgb] = /rgb\((\d+) (\d+) (\d+)\)/.exec(textStyle(share, on).background ?? "") ?? [];
    return rgb.reduce((sum, channel) => sum + Number(channel), 0);
  };

  it("is the farther from the paper the heavier the weight", () => {
    const shares = [0.05, 0.3, 0.6, 0.9, 1];
    const rising = shares.map((share) => lightness(share, "dark"));
    const falling = shares.map((share) => lightness(share, "light"));
    expect(rising).toEqual([...rising].sort((a, b) => a - b));
    expect(falling).toEqual([...falling].sort((a, b) => b - a));
    expect(textStyle(1, "light").color).toBe("#fff");
    expect(textStyle(0.05, "light").color).toBe("#000");
  });

  it("stays plain where there is next to nothing", () => {
    expect(textStyle(0, "light")).toEqual({});
    expect(textStyle(Number.NaN, "dark")).toEqual({});
  });
});
