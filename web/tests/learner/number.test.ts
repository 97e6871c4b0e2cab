import { describe, expect, it } from "vitest";
import { sayPhrase } from "../../src/learner/language";
import { nudged, readNumber } from "../../src/learner/parts/number";

/** What a reader is told of a text that is no number. */
function said(text: string): string {
  const read = readNumber(text);
  return read.is === "wrong" ? sayPhrase(read.why) : "";
}

describe("readNumber", () => {
  it.each([
    ["2", 2],
    [" -0.5 ", -0.5],
    ["−3", -3],
    [".25", 0.25],
    ["1e-3", 0.001],
    ["1/4", 0.25],
    ["-1 / 2", -0.5],
    ["1,5", 1.5],
    ["−0,125", -0.125],
    ["0,5/2", 0.25],
  ])("reads %s", (text, value) => {
    expect(readNumber(text)).toEqual({ is: "number", value });
  });

  it("takes nothing as a wish for the computed number", () => {
    expect(readNumber("  ")).toEqual({ is: "nothing" });
  });

  it.each(["abc", "1,5,2", "1,", "1/2/3", "--1", "Infinity", "0x10", "-", "1e"])(
    "refuses %s",
    (text) => {
      expect(said(text)).toContain("is not a number");
    },
  );

  it("does not guess what a comma before three digits means", () => {
    for (const text of ["1,000", "-12,345"]) expect(said(text)).toContain("two ways");
  });

  it("refuses what no number can be", () => {
    expect(said("1/0")).toContain("divided by 0");
    expect(said("1/1e-400")).toContain("divided by 0");
    for (const large of ["1e10", "1e400", "1e400/1e400"]) expect(said(large)).toContain("10⁹");
  });

  it("shows only the beginning of a long text", () => {
    expect(said("x".repeat(500)).length).toBeLessThan(100);
  });
});

describe("nudged", () => {
  it("moves by a tenth without dust", () => {
    expect(nudged(0.2, 1)).toBe(0.3);
    expect(nudged(0.1, -1)).toBe(0);
  });
});
