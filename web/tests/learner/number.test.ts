import { describe, expect, it } from "vitest";
import { nudged, readNumber } from "../../src/learner/parts/number";

describe("readNumber", () => {
  it.each([
    ["2", 2],
    [" -0.5 ", -0.5],
    ["−3", -3],
    [".25", 0.25],
    ["1e-3", 0.001],
    ["1/4", 0.25],
    ["-1 / 2", -0.5],
  ])("reads %s", (text, value) => {
    expect(readNumber(text)).toEqual({ is: "number", value });
  });

  it("takes nothing as a wish for the computed number", () => {
    expect(readNumber("  ")).toEqual({ is: "nothing" });
  });

  it.each(["abc", "1,5", "1/2/3", "--1", "Infinity", "0x10", "-", "1e"])("refuses %s", (text) => {
    const read = readNumber(text);
    expect(read).toMatchObject({ is: "wrong", why: expect.stringContaining("is not a number") });
  });

  it("says where decimals go", () => {
    expect(readNumber("1,5")).toMatchObject({ why: expect.stringContaining("after a point") });
  });

  it("refuses what no number can be", () => {
    expect(readNumber("1/0")).toMatchObject({ why: expect.stringContaining("divided by 0") });
    expect(readNumber("1e10")).toMatchObject({ why: expect.stringContaining("10⁹") });
  });

  it("shows only the beginning of a long text", () => {
    const read = readNumber("x".repeat(500));
    expect(read.is === "wrong" && read.why.length).toBeLessThan(100);
  });
});

describe("nudged", () => {
  it("moves by a tenth without dust", () => {
    expect(nudged(0.2, 1)).toBe(0.3);
    expect(nudged(0.1, -1)).toBe(0);
  });
});
