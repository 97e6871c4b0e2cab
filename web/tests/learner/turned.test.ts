import { describe, expect, it } from "vitest";
import type { Sheet } from "../../src/learner/parts/sheets";
import { turnedBook, turnedSheet } from "../../src/learner/parts/turned";

const KEYS: Sheet = {
  name: "h0.keys",
  title: "K",
  role: "k",
  values: [
    [1, 2, 3],
    [4, 5, 6],
  ],
  rows: ["cat", "sat"],
  columns: ["k1", "k2", "k3"],
};

describe("K as it is multiplied", () => {
  it("has a column for each token and is called Kᵀ", () => {
    const turned = turnedSheet(KEYS);
    expect(turned.title).toBe("Kᵀ");
    expect(turned.columns).toEqual(KEYS.rows);
    expect(turned.values).toEqual([
      [1, 4],
      [2, 5],
      [3, 6],
    ]);
  });

  it("writes a change into K itself", () => {
    const put: unknown[] = [];
    const book = turnedBook({
      isChanged: (row, column) => row === 1 && column === 2,
      put: (...change) => put.push(change),
    });
    book.put(2, 1, 9);
    expect(put).toEqual([[1, 2, 9]]);
    expect(book.isChanged(2, 1)).toBe(true);
    expect(book.isChanged(1, 2)).toBe(false);
  });
});
