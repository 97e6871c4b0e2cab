import { describe, expect, it } from "vitest";
import { shade } from "../../src/colour/palette";
import { type Heat, heatColour, heatInWords, heatScale } from "../../src/learner/parts/heat";
import { cellAt, cellBeside, heatLayout } from "../../src/learner/parts/heatLayout";

const names = (count: number) => Array.from({ length: count }, (_, n) => `w${n}`);
const SPACE = { side: 400, room: 900, em: 12.8 };

function even(count: number, causal: boolean): Heat {
  const weights = names(count).map((_, row) =>
    names(count).map((_, key) => (causal ? (key <= row ? 1 / (row + 1) : 0) : 1 / count)),
  );
  return { weights, labels: names(count), causal, mark: count - 1 };
}

describe("the layout of a map", () => {
  it("has numbers for a few tokens, names for more, then cells alone", () => {
    const details = [3, 8, 9, 30, 48, 512].map((n) => heatLayout(names(n), SPACE).detail);
    expect(details).toEqual(["numbers", "numbers", "names", "names", "none", "none"]);
  });

  it.each([1, 3, 8, 9, 25, 48, 512])("of %i tokens fits into any room", (count) => {
    for (const room of [20, 120, 330, 900]) {
      expect(heatLayout(names(count), { ...SPACE, room }).width).toBeLessThanOrEqual(room);
    }
  });

  it.each([1, 3, 8, 9, 25, 48, 512])("of %i tokens stays as it is in its own width", (count) => {
    const wanted = heatLayout(names(count), { ...SPACE, room: Number.POSITIVE_INFINITY });
    expect(heatLayout(names(count), { ...SPACE, room: wanted.width })).toEqual(wanted);
  });

  it("gives names up before a long one takes the room of the cells", () => {
    const long = ["x".repeat(10_000), ...names(20)];
    expect(heatLayout(long, SPACE).width).toBeLessThan(600);
  });
});

describe("the cells of a map", () => {
  const layout = heatLayout(names(9), SPACE);
  const middle = (n: number) => (n + 0.5) * layout.cellWidth;

  it("are found under the pointer, and not beside them", () => {
    const at = [layout.left + middle(8), layout.top + middle(2)] as const;
    expect(cellAt(layout, ...at)).toEqual({ row: 2, key: 8 });
    expect(cellAt(layout, layout.left - 1, at[1])).toBeNull();
    expect(cellAt(layout, at[0], layout.top - 1)).toBeNull();
    expect(cellAt(layout, layout.width, at[1])).toBeNull();
  });

  it("are walked through by arrow keys as far as the edge", () => {
    expect(cellBeside(layout, { row: 1, key: 1 }, "ArrowUp")).toEqual({ row: 0, key: 1 });
    expect(cellBeside(layout, { row: 0, key: 1 }, "ArrowUp")).toEqual({ row: 0, key: 1 });
    expect(cellBeside(layout, { row: 8, key: 8 }, "ArrowRight")).toEqual({ row: 8, key: 8 });
    expect(cellBeside(layout, { row: 1, key: 1 }, "Enter")).toBeNull();
  });
});

describe("the colours of a map", () => {
  it("are the weight's of a few tokens, and none where hidden", () => {
    expect(heatColour(even(4, true), 1, 0)).toEqual(shade(0.5));
    expect(heatColour(even(4, true), 1, 2)).toBeNull();
    expect(heatColour(even(4, false), 1, 2)).toEqual(shade(0.25));
  });

  it("are of many tokens the same wherever a row looks evenly", () => {
    expect(heatScale(64).log).toBe(true);
    const third = shade(1 / 3); // 1 on 0.1 … 100
    for (const heat of [even(64, true), even(64, false)]) {
      expect(heatColour(heat, 9, 3)).toEqual(third);
      expect(heatColour(heat, 63, 3)).toEqual(third);
    }
  });
});

describe("a map in words", () => {
  it("has every weight of a few tokens", () => {
    expect(heatInWords(even(2, true))).toBe("Row of w0: w0 1.00. Row of w1: w0 0.50, w1 0.50.");
  });

  it("has the heaviest of the marked row of many", () => {
    const heat = even(20, true);
    const weights = heat.weights.map((row) => row.map((_, key) => (key === 17 ? 0.9 : 0.005)));
    const words = heatInWords({ ...heat, weights });
    expect(words).toMatch(/^Row of w19: w17 0.90, /);
    expect(words.split(",")).toHaveLength(12);
  });
});
