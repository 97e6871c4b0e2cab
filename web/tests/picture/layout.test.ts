import { describe, expect, it } from "vitest";
import {
  along,
  cellAt,
  cellOf,
  type GridPart,
  laid,
  moved,
  nameOf,
  onPicture,
  placedOf,
  positionOf,
  windowAt,
  windowOf,
} from "../../src/engineer/picture/layout";
import type { AxisPart, GridPlace } from "../../src/source/answers";

const GRID: GridPlace = {
  ...{ prefix: [], frames: 1, height: 2, width: 3, picture: 0, windows: [1, 1] },
  ...{ shift: 0, size: [2, 3], apart: false, order: null },
};

function part(grid: Partial<GridPlace>, start = 0): GridPart {
  const whole = { ...GRID, ...grid };
  const [down, across] = whole.apart ? [1, 1] : whole.windows;
  const own = { ...whole, size: grid.size ?? [whole.height * down, whole.width * across] } as const;
  const count = own.prefix.length + own.frames * own.height * own.width;
  return { start, count, kind: "grid", what: "", grid: own, moments: null };
}

function text(start: number, count: number): AxisPart {
  return { start, count, kind: "text", what: "", grid: null, moments: null };
}

describe("patches", () => {
  it("lie row by row behind the prefix, in every frame", () => {
    const own = part({ prefix: ["class"], frames: 2 }, 4);
    expect(cellOf(own, 4)).toBeNull();
    expect(cellOf(own, 5)).toEqual({ frame: 0, row: 0, column: 0 });
    expect(cellOf(own, 5 + 6 + 4)).toEqual({ frame: 1, row: 1, column: 1 });
    for (let n = 5; n < 17; n += 1) {
      const cell = cellOf(own, n);
      expect(cell && positionOf(own, cell)).toBe(n);
    }
  });

  it("lie in the order that the model has them in", () => {
    const own = part({
      height: 4,
      width: 4,
      order: [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15],
    });
    expect(cellOf(own, 2)).toEqual({ frame: 0, row: 1, column: 0 });
    expect(positionOf(own, { frame: 0, row: 0, column: 2 })).toBe(4);
    const numbers = Float32Array.from({ length: 16 }, (_, n) => n);
    expect([...laid(own, numbers, 0, 0)].slice(0, 8)).toEqual([0, 1, 4, 5, 2, 3, 6, 7]);
  });

  it("of a window lie where the model moved it, round the edges", () => {
    const own = part({ height: 2, width: 2, windows: [2, 2], shift: 1 });
    expect(placedOf(own.grid, 3)).toEqual({
      ...{ rows: 4, columns: 4, down: 4, across: 4, top: 3, left: 3, picture: 0 },
    });
    const over = laid(own, [1, 2, 3, 4], 0, 3);
    expect([over[15], over[12], over[3], over[0]]).toEqual([1, 2, 3, 4]);
    expect([...over].filter(Number.isNaN)).toHaveLength(12);
    expect(onPicture(own.grid, 3, { frame: 0, row: 1, column: 0 })).toEqual({ row: 0, column: 3 });
    expect(cellAt(own.grid, 3, { x: 0.9, y: 0.1 }, 0)).toEqual({ frame: 0, row: 1, column: 0 });
    expect(cellAt(own.grid, 3, { x: 0.4, y: 0.4 }, 0)).toBeNull();
    expect(windowAt(own.grid, { x: 0.9, y: 0.1 })).toBe(3);
    expect(windowAt(own.grid, { x: 0.3, y: 0.3 })).toBe(0);
  });

  it("of a window beyond the picture's end are left out", () => {
    const own = part({ height: 2, width: 2, windows: [2, 2], size: [3, 3] });
    const over = laid(own, [1, 2, 3, 4], 0, 3);
    expect(over).toHaveLength(9);
    expect([...over].filter((n) => !Number.isNaN(n))).toEqual([1]);
    expect(cellAt(own.grid, 3, { x: 0.9, y: 0.9 }, 0)).toEqual({ frame: 0, row: 0, column: 0 });
    const moved = part({ height: 2, width: 2, windows: [2, 2], shift: 1, size: [3, 3] });
    expect([...laid(moved, [1, 2, 3, 4], 0, 3)].map((n) => (Number.isNaN(n) ? 0 : n))).toEqual([
      4, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    expect(windowAt(moved.grid, { x: 0.1, y: 0.1 })).toBe(3);
  });

  it("of windows that are pictures lie on their own", () => {
    const own = part({ windows: [1, 3], apart: true, picture: 1 });
    expect(placedOf(own.grid, 2)).toEqual({
      ...{ rows: 2, columns: 3, down: 2, across: 3, top: 0, left: 0, picture: 3 },
    });
  });
});

describe("heads", () => {
  it("are counted within their window", () => {
    const place = { queries: 0, keys: 0, query_tokens: "", key_tokens: "", heads: 12 };
    const axis = [part({ windows: [2, 2] })];
    expect(windowOf(place, axis, 7)).toEqual({ window: 2, own: 1, heads: 3 });
    expect(windowOf(place, [part({})], 7)).toEqual({ window: 0, own: 7, heads: 12 });
  });
});

describe("arrow keys", () => {
  const axis = [text(0, 2), part({ prefix: ["class"] }, 2), text(9, 2)];
  it("move over patches in four ways and stop at the edge", () => {
    expect(moved(axis, 3, "ArrowRight")).toBe(4);
    expect(moved(axis, 3, "ArrowDown")).toBe(6);
    expect(moved(axis, 3, "ArrowUp")).toBe(3);
    expect(moved(axis, 5, "ArrowRight")).toBe(5);
  });
  it("move along words and extra tokens", () => {
    expect(moved(axis, 0, "ArrowRight")).toBe(1);
    expect(moved(axis, 2, "ArrowDown")).toBe(3);
    expect(moved(axis, 9, "ArrowLeft")).toBe(8);
    expect(along(axis, 10, 1)).toBe(10);
  });
  it("reach what has a name", () => {
    expect([0, 2, 7].map((n) => nameOf(axis, n, n === 0 ? "cat" : null))).toEqual([
      "“cat”",
      "class",
      "patch (1, 1)",
    ]);
  });
});
