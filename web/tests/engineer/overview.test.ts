import { describe, expect, it } from "vitest";
import {
  counted,
  doing,
  inOrder,
  layersInWords,
  runs,
  sizeInWords,
  titleInWords,
} from "../../src/engineer/overview/facts";
import { namedHead } from "../../src/engineer/overview/GoTo";
import {
  cellAt,
  cornerOf,
  labelEvery,
  layoutOf,
  moved,
  naturalWidth,
} from "../../src/engineer/overview/gridLayout";
import { barOf, entropyByLayer, ranked, scaleOf } from "../../src/engineer/overview/statistics";
import { hasPictures } from "../../src/engineer/overview/thumbnails";
import { headOf, overviewOf, stackOf } from "./made";

describe("the grid", () => {
  it("grows with the window", () => {
    const small = layoutOf(900, 12, 12, 800).step;
    expect(layoutOf(1400, 12, 12, 1080).step).toBeGreaterThan(small);
    expect(layoutOf(2400, 12, 12, 1800).step).toBeGreaterThan(1.5 * small);
    expect(layoutOf(330, 12, 12, 800).step).toBe(23);
  });

  it("fits the width, and a screen where that stays readable", () => {
    const wide = layoutOf(900, 30, 9);
    expect(wide.step).toBe(56);
    expect(layoutOf(900, 6, 12, 900).step).toBe(71);
    const large = layoutOf(760, 32, 32);
    expect(large.width).toBeLessThanOrEqual(760);
    expect(layoutOf(600, 200, 8).step).toBe(40);
    expect(layoutOf(1500, 200, 8).step).toBe(64);
    expect(layoutOf(10, 4, 64).step).toBe(8);
    expect(naturalWidth(2, 2)).toBe(44 + 2 * 160);
  });

  it("knows which cell lies under a point", () => {
    const layout = layoutOf(700, 12, 12);
    for (const cell of [
      { layer: 0, head: 0 },
      { layer: 11, head: 11 },
      { layer: 3, head: 7 },
    ]) {
      const { x, y } = cornerOf(layout, cell);
      expect(cellAt(layout, x, y)).toEqual(cell);
      expect(cellAt(layout, x + layout.size - 0.1, y + layout.size - 0.1)).toEqual(cell);
    }
    expect(cellAt(layout, layout.left - 1, 50)).toBeNull();
    expect(cellAt(layout, layout.width + 1, 50)).toBeNull();
    expect(cellAt(layout, 60, layout.height + 1)).toBeNull();
  });

  it("moves by one and stays inside", () => {
    const layout = layoutOf(700, 2, 3);
    expect(moved(layout, { layer: 0, head: 0 }, "ArrowRight")).toEqual({ layer: 0, head: 1 });
    expect(moved(layout, { layer: 0, head: 0 }, "ArrowDown")).toEqual({ layer: 1, head: 0 });
    expect(moved(layout, { layer: 0, head: 0 }, "ArrowUp")).toEqual({ layer: 0, head: 0 });
    expect(moved(layout, { layer: 1, head: 2 }, "ArrowRight")).toEqual({ layer: 1, head: 2 });
  });

  it("leaves room between numbers", () => {
    for (const step of [8, 13, 25, 60]) {
      expect(labelEvery(step, 22) * step).toBeGreaterThanOrEqual(22);
    }
  });
});

describe("statistics", () => {
  const stack = stackOf("", [
    [0.5, null],
    [0.25, 1],
  ]);
  const heads = [headOf("", 0, 0), headOf("", 0, 1), headOf("", 1, 0), headOf("", 1, 1)];
  const overview = overviewOf({ stacks: [stack], heads });

  it("ranks what is known", () => {
    expect(ranked(overview, "peak", "high").map((one) => one.label)).toEqual([
      "L1H1",
      "L0H0",
      "L1H0",
    ]);
    expect(ranked(overview, "peak", "low")[0]).toEqual({ label: "L1H0", value: 0.25 });
    expect(ranked(overview, "max_score", "high")).toEqual([]);
  });

  it("colours a share from 0 to 1, entropy to its largest, others by what there is", () => {
    expect(scaleOf("peak", overview)).toMatchObject({ low: 0, high: 1, log: false });
    const beyond = overviewOf({ stacks: [stackOf("", [[0.5, 2.5]])], heads });
    expect(scaleOf("peak", beyond)).toMatchObject({ low: 0, high: 2.5 });
    expect(scaleOf("entropy", overview).high).toBeCloseTo(Math.log(8), 12);
    const scores = overviewOf({ stacks: [stackOf("", [[-3, 7, null]], "max_score")], heads });
    expect(scaleOf("max_score", scores)).toMatchObject({ low: -3, high: 7 });
    expect(scaleOf("max_score", overview)).toMatchObject({ low: 0, high: 1 });
  });

  it("draws the bars of a ranking from zero", () => {
    const scale = (low: number, high: number) => ({ ...scaleOf("entropy", overview), low, high });
    expect(barOf(3, scale(2, 4))).toEqual({ left: 0, width: 0.75 });
    expect(barOf(2, scale(2, 4))).toEqual({ left: 0, width: 0.5 }); // the smallest has a bar too
    expect(barOf(5, scale(-5, 5))).toEqual({ left: 0.5, width: 0.5 });
    expect(barOf(-5, scale(-5, 5))).toEqual({ left: 0, width: 0.5 });
    expect(barOf(-1, scale(-4, -1))).toEqual({ left: 0.75, width: 0.25 });
  });

  it("tells the span and the median of each layer", () => {
    expect(entropyByLayer([[0.4, 0.1, null, 0.2], [null], [0.3, 0.5]])).toEqual([
      { low: 0.1, middle: 0.2, high: 0.4 },
      null,
      { low: 0.3, middle: 0.4, high: 0.5 },
    ]);
    expect(entropyByLayer(null)).toEqual([]);
  });
});

describe("words", () => {
  it("says which heads zoom exactly", () => {
    const all = overviewOf({ heads: [headOf("", 0, 0)], stacks: [stackOf("", [[1]])] });
    expect(layersInWords(all)).toBe("all 1 heads zoom to single weights");
    const none = overviewOf({ heads: [headOf("", 0, 0, false)], stacks: [stackOf("", [[1]])] });
    expect(layersInWords(none)).toContain("no head");
    const heads = [0, 1, 2, 5].map((layer) => headOf("cross", layer, 0, layer !== 1));
    const some = overviewOf({ heads, stacks: [stackOf("cross", [[1]])] });
    expect(layersInWords(some)).toBe(
      "3 of 4 heads zoom to single weights (cross layers 0, 2, 5); of the others summaries were stored",
    );
  });

  it("lists runs, sizes and stacks as a text passes through them", () => {
    expect(runs([0, 1, 2, 5, 7, 8])).toBe("0–2, 5, 7–8");
    expect([counted(1, "layer"), counted(1200, "head")]).toEqual(["1 layer", "1,200 heads"]);
    const stacks = ["cross", "other", "encoder", "decoder"].map((name) => stackOf(name, [[1]]));
    const names = inOrder(stacks).map((one) => one.name);
    expect(names).toEqual(["encoder", "decoder", "cross", "other"]);
    expect(sizeInWords(overviewOf({ stacks: [stackOf("", [[1, 2]])] }))).toBe("1 layer × 2 heads");
  });

  it("says the whole sentence behind the label", () => {
    const said = "L1H2 looks back (0.5 of its mass); best seen at row 3; not at row 4";
    expect(doing(said, "L1H2")).toBe(said.slice(5));
    expect(titleInWords("short")).toBe("short");
    expect(titleInWords("x".repeat(80)).endsWith("…")).toBe(true);
  });

  it("finds a head however it is spelt", () => {
    const overview = overviewOf({ heads: [headOf("", 17, 3), headOf("cross", 0, 1)] });
    expect(namedHead(overview, " l17h3 ")).toBe("L17H3");
    expect(namedHead(overview, "CROSS.L0H1")).toBe("cross.L0H1");
    expect(namedHead(overview, "L17H4")).toBeUndefined();
  });
});

describe("thumbnails", () => {
  it("tells whether there is any", () => {
    const of = (kinds: number[]) => ({
      layers: 1,
      heads: kinds.length,
      side: 1,
      kinds: Uint8Array.from(kinds),
      codes: new Uint8Array(kinds.length),
    });
    expect(hasPictures({ state: "waiting" })).toBe(true);
    expect(hasPictures({ state: "here", value: new Map([["", of([0, 0])]]) })).toBe(false);
    expect(hasPictures({ state: "here", value: new Map([["", of([0, 2])]]) })).toBe(true);
  });
});
