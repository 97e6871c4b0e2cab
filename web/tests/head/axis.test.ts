import { describe, expect, it } from "vitest";
import { roundStep, tickMarks, tokenMarks, tokensOn } from "../../src/engineer/head/axis";
import { neighboursOf } from "../../src/engineer/head/neighbours";
import { legible, shortened, spelled } from "../../src/engineer/head/spelling";
import type { HeadShort } from "../../src/source/answers";

describe("an axis", () => {
  it("steps by 1, 2, 5 and their tens", () => {
    expect([0.2, 1, 1.5, 3, 7, 12, 400].map(roundStep)).toEqual([1, 1, 2, 5, 10, 20, 500]);
  });

  it("puts numbers at the middle of their token, those of the text only", () => {
    const marks = tickMarks({ origin: -10, z: 0.5, length: 600, total: 1000 });
    expect(marks[0]).toEqual({ at: 5.25, text: "0" });
    expect(marks.at(-1)?.text).toBe("800");
    expect(tokensOn({ origin: 990.5, z: 1, length: 600, total: 1000 })).toEqual([990, 1000]);
  });

  it("writes tokens with what is invisible made visible", () => {
    const span = { origin: 2, z: 12, length: 36, total: 4 };
    const marks = tokenMarks(span, (n) => (n === 2 ? " the\n" : undefined), 10);
    expect(marks).toEqual([
      { at: 6, text: "␣the⏎" },
      { at: 18, text: "3" },
    ]);
  });
});

describe("spelling", () => {
  it("leaves nothing invisible", () => {
    expect(spelled("\ta b\r\n")).toBe("⇥a␣bU+000D⏎");
    expect(spelled("")).toBe("∅");
    expect(spelled("a\u200bb")).toBe("aU+200Bb");
    expect(spelled("\u00a0")).toBe("U+00A0");
    expect(spelled("naïve 猫")).toBe("naïve␣猫");
  });

  it("keeps a text readable whose tokens would turn it around", () => {
    expect(legible("a \u202eb\n猫")).toBe("a U+202Eb\n猫");
  });

  it("cuts at the end, never inside a character", () => {
    expect(shortened("abcdef", 6)).toBe("abcdef");
    expect(shortened("abcdefg", 6)).toBe("abcde…");
    expect(shortened("😀😀😀", 2)).toBe("😀…");
  });
});

describe("neighbours", () => {
  const head = (layer: number, n: number, stack = ""): HeadShort => ({
    ...{ label: `${stack}L${layer}H${n}`, stack, layer, head: n },
    ...{ shape: [4, 4], kind: "self" as const, recorded: [0, 4], exact: true },
  });
  const heads = [head(0, 0), head(0, 1), head(2, 0), head(2, 1), head(0, 0, "cross/")];

  it("are beside it in its own stack", () => {
    expect(neighboursOf(heads, "L0H1")).toEqual({
      ...{ before: "L0H0", after: "L2H0", above: null, below: "L2H1" },
    });
    expect(neighboursOf(heads, "cross/L0H0")).toEqual({
      ...{ before: null, after: null, above: null, below: null },
    });
    expect(neighboursOf(heads, "L9H9").before).toBeNull();
  });
});
