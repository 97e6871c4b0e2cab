import { describe, expect, it } from "vitest";
import {
  bounded,
  cellAt,
  fitZoom,
  mostZoom,
  originOf,
  panned,
  wholeView,
  withCell,
  zoomed,
} from "../../src/engineer/head/view";

const size = { width: 600, height: 500 };
const shape = { queries: 2000, keys: 2000 };
const bounds = { shape, most: 48 };

describe("the view", () => {
  it("shows the whole from the upper left", () => {
    const view = wholeView(shape, size);
    expect(view.z).toBe(500 / 2000);
    expect(originOf(view, size)).toEqual({ x: 0, y: 0 });
    expect(bounded(view, size, bounds)).toEqual(view);
  });

  it("fits matrices that are no squares by their longer side", () => {
    expect(fitZoom({ queries: 10, keys: 1000 }, size)).toBe(0.6);
    expect(fitZoom({ queries: 1000, keys: 10 }, size)).toBe(0.5);
  });

  it("stays within the matrix and the zoom's ends", () => {
    const far = bounded({ x: 1e9, y: -5, z: 1000 }, size, bounds);
    expect(far.z).toBe(48);
    expect(originOf(far, size).x + size.width / far.z).toBeCloseTo(2000, 9);
    expect(originOf(far, size).y).toBeCloseTo(0, 9);
    expect(bounded({ x: 0, y: 0, z: 1e-9 }, size, bounds).z).toBe(0.25);
  });

  it("keeps the token under the pointer when zooming", () => {
    const view = { x: 900, y: 700, z: 1 };
    const at = { x: 450, y: 100 };
    const near = zoomed(view, size, bounds, 3, at);
    const under = (v: typeof view) => {
      const origin = originOf(v, size);
      return [origin.x + at.x / v.z, origin.y + at.y / v.z];
    };
    expect(near.z).toBe(3);
    expect(under(near)[0]).toBeCloseTo(under(view)[0] as number, 9);
    expect(under(near)[1]).toBeCloseTo(under(view)[1] as number, 9);
  });

  it("moves what is under the hand by as much as the hand", () => {
    expect(panned({ x: 10, y: 10, z: 2 }, 6, -4)).toEqual({ x: 7, y: 12, z: 2 });
  });

  it("names the cell under a point, and none beyond the matrix", () => {
    const view = { x: 30, y: 25, z: 10 };
    expect(cellAt(view, size, shape, { x: 15, y: 5 })).toEqual({ row: 0, key: 1 });
    expect(cellAt(wholeView(shape, size), size, shape, { x: 599, y: 5 })).toBeNull();
  });

  it("brings a cell into view and leaves alone what is seen", () => {
    const view = { x: 1000, y: 1000, z: 10 };
    expect(withCell(view, size, bounds, { row: 1000, key: 1000 })).toEqual(view);
    const moved = withCell(view, size, bounds, { row: 0, key: 1999 });
    const origin = originOf(moved, size);
    expect(origin.y).toBeCloseTo(0, 9);
    expect(origin.x + size.width / moved.z).toBeCloseTo(2000, 9);
  });

  it("does not go finer than what was stored", () => {
    expect(mostZoom(true, 64)).toBe(48);
    expect(mostZoom(false, 64)).toBe(0.25);
  });
});
