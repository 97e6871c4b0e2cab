import { describe, expect, it } from "vitest";
import { givenOf } from "../../src/learner/data";
import { cellKey, type WorkedHead, workOut } from "../../src/maths/lesson";
import { expectMatrix, vectors } from "./vectors";

describe("a lesson is what Python's definition says", () => {
  for (const [name, { data, worked }] of Object.entries(vectors.lessons)) {
    it(name, () => {
      const found = workOut(givenOf(data));
      expectMatrix(found.x, worked.embeddings.x);
      worked.heads.forEach((head, h) => {
        for (const [step, matrix] of Object.entries(head)) {
          expectMatrix((found.heads[h] as WorkedHead)[step as keyof WorkedHead], matrix);
        }
      });
      expectMatrix(found.concat, worked.concat);
      expectMatrix(found.output, worked.output);
      for (const [step, matrix] of Object.entries(worked.block ?? {})) {
        expectMatrix(found.block?.[step as keyof typeof found.block] ?? [], matrix);
      }
    });
  }
});

describe("a split into heads", () => {
  it("has as many numbers however many heads there are", () => {
    for (const { data } of Object.values(vectors.lessons)) {
      const counts = data.splits.map(
        ({ heads, w_o }) => [...heads.flatMap((head) => Object.values(head)), w_o].flat(2).length,
      );
      expect(new Set(counts).size).toBe(1);
    }
  });
});

describe("a number put in by hand", () => {
  const { data } = vectors.lessons.notes as (typeof vectors.lessons)[string];

  it("changes what follows it and nothing before it", () => {
    const edits = new Map([["h0.scores", new Map([[cellKey(0, 1), 4]])]]);
    const [before, after] = [workOut(givenOf(data)), workOut(givenOf(data), edits)];
    expect(after.heads[0]?.keys).toEqual(before.heads[0]?.keys);
    expect(after.heads[0]?.scaled[0]).toEqual([1, 2, 1]);
    expect(after.heads[0]?.weights[1]).toEqual(before.heads[0]?.weights[1]);
    expect(after.output[0]).not.toEqual(before.output[0]);
  });
});
