import { expect, it } from "vitest";
import { randomProjections } from "../../src/maths/draws";
import { bare, unpacked, vectorOf } from "../../src/maths/vocabulary";
import { vectors } from "./vectors";

const given = vectors.lessons.notes?.data.vocabularies;
if (!given) throw new Error("no vocabularies");
const vocabularies = { ...given, smollm2: unpacked(given.smollm2) };

it("finds or makes up the vectors that Python does, to the last digit", () => {
  for (const { word, bare: plain, vectors: wanted, made_up } of vectors.words) {
    expect(bare(word), word).toBe(plain);
    for (const name of ["notes", "features", "smollm2"] as const) {
      const found = vectorOf(vocabularies[name], word);
      expect(found, `${word} in ${name}`).toEqual({
        vector: wanted[name],
        isMadeUp: made_up[name],
      });
    }
  }
});

it("draws the random projections that Python draws", () => {
  for (const { seed, heads, w_o } of vectors.random_projections) {
    const share = 8 / heads.length;
    const sizes = { width: 8, heads: heads.length, d_k: share, d_v: share };
    expect(randomProjections(sizes, BigInt(seed))).toEqual({ heads, w_o });
  }
});
