import { describe, expect, it } from "vitest";
import { heaviest } from "../../src/source/head";
import { Rows } from "../../src/source/rows";

describe("a carried row", () => {
  // two rows: keys 0–1, and keys 0–2
  const sight = { span: [0, 2], rows: null, counts: null, edges: [0, 2, 0, 3] } as const;
  const rows = new Rows(sight, new Float32Array([0.25, 0.75, 0.5, Number.NaN, 0.5]));

  it("tells what is hidden from what is no number", () => {
    const into = new Float32Array(4);
    rows.fill(1, 0, 4, into);
    expect([...into]).toEqual([0.5, Number.POSITIVE_INFINITY, 0.5, Number.NaN]);
    rows.fill(0, 1, 4, into.subarray(0, 3));
    expect([...into.subarray(0, 3)]).toEqual([0.75, Number.NaN, Number.NaN]);
  });

  it("does not rank what is no number", () => {
    const weights = new Float32Array([0.1, Number.POSITIVE_INFINITY, 0.4, Number.NaN]);
    expect(heaviest(weights, 3)).toEqual([2, 0]);
  });
});
