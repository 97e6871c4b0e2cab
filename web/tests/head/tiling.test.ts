import { describe, expect, it } from "vitest";
import { Lru } from "../../src/engineer/head/lru";
import { chooseLevel, fitsInOne, tilesIn } from "../../src/engineer/head/tiling";

const levels = [1, 2, 4, 8, 16, 128];

describe("tiles", () => {
  it("has pixels about as large as the screen's", () => {
    expect(chooseLevel(levels, 12)).toBe(1);
    expect(chooseLevel(levels, 1)).toBe(1);
    expect(chooseLevel(levels, 0.25)).toBe(4);
    expect(chooseLevel(levels, 0.3)).toBe(4);
    expect(chooseLevel(levels, 0.01)).toBe(128);
    expect(chooseLevel(levels, 1e-6)).toBe(128);
    expect(chooseLevel([64, 128], 4)).toBe(64);
    expect(chooseLevel([], 1)).toBeNull();
  });

  it("covers the view, nearest to the middle first, and nothing beyond the matrix", () => {
    const size = { width: 512, height: 512 };
    const shape = { queries: 600, keys: 2000 };
    const found = tilesIn({ x: 700, y: 256, z: 1 }, size, shape, 1, "mean");
    expect(found[0]).toEqual({ level: 1, y: 0, x: 2, how: "mean" });
    expect(new Set(found.map((at) => at.x))).toEqual(new Set([1, 2, 3]));
    expect(new Set(found.map((at) => at.y))).toEqual(new Set([0, 1]));
    const end = tilesIn({ x: 1900, y: 500, z: 1 }, size, shape, 1, "max");
    expect(Math.max(...end.map((at) => at.x))).toBe(7);
    expect(Math.max(...end.map((at) => at.y))).toBe(2);
  });

  it("knows when one tile is enough", () => {
    expect(fitsInOne(8, { queries: 2048, keys: 100 })).toBe(true);
    expect(fitsInOne(8, { queries: 100, keys: 2049 })).toBe(false);
  });
});

describe("Lru", () => {
  it("forgets what was used longest ago", () => {
    const kept = new Lru<number>(2);
    kept.put("a", 1);
    kept.put("b", 2);
    expect(kept.get("a")).toBe(1);
    kept.put("c", 3);
    expect([kept.has("a"), kept.has("b"), kept.has("c")]).toEqual([true, false, true]);
    expect(kept.size).toBe(2);
    kept.put("a", 4);
    expect(kept.get("a")).toBe(4);
    expect(kept.size).toBe(2);
  });
});
