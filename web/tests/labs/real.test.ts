import { describe, expect, it } from "vitest";
import type { RealHead } from "../../src/learner/data";
import { realWeights, startRow } from "../../src/learner/labs/realWeights";
import { sayPhrase } from "../../src/learner/language";
import { stateOf } from "./state";

const real = stateOf("notes").lesson.real as RealHead;

describe("the real head", () => {
  const { weights } = realWeights(real);

  it("sees nothing that comes later, and every row sums to 1", () => {
    weights.forEach((row, i) => {
      expect(row.reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1, 12);
      expect(row.slice(i + 1).every((weight) => weight === 0)).toBe(true);
    });
  });

  it("does what its words say, with their number", () => {
    const masses = real.tokens.flatMap((token, i) => {
      const after = real.tokens.flatMap((_, j) =>
        j < i && real.tokens[j - 1] === token ? [j] : [],
      );
      return after.length ? [after.reduce((sum, j) => sum + (weights[i]?.[j] ?? 0), 0)] : [];
    });
    const mean = masses.reduce((sum, mass) => sum + mass, 0) / masses.length;
    expect(sayPhrase(real.words)).toContain(`${mean.toFixed(2)} of its weight`);
    expect(sayPhrase(real.words)).toContain(`${masses.length} rows`);
  });

  it("opens on a row that shows it", () => {
    const i = startRow(real);
    const row = weights[i] ?? [];
    const j = row.indexOf(Math.max(...row));
    expect(real.tokens[j - 1]).toBe(real.tokens[i]);
  });
});
