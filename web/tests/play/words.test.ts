import { expect, test } from "vitest";
import { pathBetween } from "../../src/play/arcs";
import { counterpart } from "../../src/play/linked";
import { askedOf, chosenOf, labelOf } from "../../src/play/place";
import { isSpecial, quoted, tokenText, wordText } from "../../src/play/spelling";
import { heaviest } from "../../src/play/weights";

test("the heaviest keys, heaviest first, without what is next to nothing", () => {
  const row = new Float32Array([0.1, 0.5, 0.001, 0.2, 0.199]);
  expect(heaviest(row, 3).map((one) => one.key)).toEqual([1, 3, 4]);
  expect(heaviest(row, 9).map((one) => one.key)).toEqual([1, 3, 4, 0]);
  expect(heaviest(new Float32Array(), 3)).toEqual([]);
});

test("words of two prompts are linked from the front, and from the end", () => {
  const tired = "it was too tired to cross".split(" ");
  const wide = "it was far too wide to cross".split(" ");
  expect([0, 1].map((n) => counterpart(tired, wide, n))).toEqual([0, 1]);
  expect([4, 5].map((n) => counterpart(tired, wide, n))).toEqual([5, 6]);
  expect(counterpart(tired, wide, 2)).toBeNull();
  expect(counterpart(["a", "b", "c"], ["a", "x", "c"], 1)).toBe(1);
});

test("tokens are text a reader can see", () => {
  expect(tokenText(" Paris")).toBe("Paris");
  expect(tokenText("ing")).toBe("…ing");
  expect(tokenText("The", 0)).toBe("The");
  expect(tokenText(".")).toBe(".");
  expect(tokenText("  ")).toBe("␣␣");
  expect(tokenText("\n")).toBe("⏎");
  expect(wordText("a\u202eb")).toBe("ab");
  expect(quoted(" cat")).toBe("“cat”");
  expect(isSpecial("<|endoftext|>") && isSpecial("[CLS]") && !isSpecial("[cls]")).toBe(true);
});

test("the address says what is asked for", () => {
  expect(askedOf({})).toBeNull();
  const at = { p: "a b", t: "5,x,7", off: "L1H2,cross.L0H1", cut: "3~1,4~2~L0H0,x~1", b: "other" };
  expect(askedOf(at)).toEqual({
    ...{ text: "a b", pair: "", sound: "", more: [5, 7], heads: ["L1H2", "cross.L0H1"] },
    edges: [
      [3, 1, ""],
      [4, 2, "L0H0"],
    ],
  });
  expect(chosenOf("cross.L2H3")).toEqual({ stack: "cross", layer: 2, head: 3 });
  expect(labelOf({ stack: "", layer: 4, head: 0 })).toBe("L4H0");
  expect(["", "L1", "LxH1", "L1H2 "].map(chosenOf)).toEqual([null, null, null, null]);
});

test("an arc begins above one word and ends above the other", () => {
  const at = (x: number, y: number) => ({ x, y, width: 20, height: 16 });
  expect(pathBetween(at(100, 50), at(0, 50))).toMatch(/^M 110\.0 50\.0 C .* 10\.0 50\.0$/);
  expect(pathBetween(at(0, 90), at(60, 50))).toMatch(/^M 10\.0 90\.0 C .* 70\.0 50\.0$/);
  expect(pathBetween(at(0, 50), at(0, 50))).toMatch(/^M 6\.0 50\.0/);
});
