import { describe, expect, it } from "vitest";
import { pinsOf, pinsWord } from "../../src/engineer/pins";

describe("pins", () => {
  it("are one word of the address, with their notes", () => {
    const pins = new Map([
      ["L5H1", "copies ~ all"],
      ["cross.L0H0", ""],
    ]);
    expect(pinsWord(pins)).toBe("L5H1~copies ~ all|cross.L0H0");
    expect(pinsOf({ pins: pinsWord(pins) ?? "" })).toEqual(pins);
  });

  it("are no word where there is none", () => {
    expect(pinsWord(new Map())).toBeUndefined();
    expect(pinsOf({})).toEqual(new Map());
  });

  it("keep what would end a pin out of its note", () => {
    const word = pinsWord(new Map([["L0H0", "a|b"]])) ?? "";
    expect(pinsOf({ pins: word })).toEqual(new Map([["L0H0", "a/b"]]));
  });
});
