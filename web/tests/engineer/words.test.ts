import { describe, expect, it, vi } from "vitest";
import type { TokenBook } from "../../src/engineer/head/tokenBook";
import { nextAfter, numberIn, textsOf, tokensWith } from "../../src/engineer/words";

const TEXTS = ["S", "ü", "ß", "e", " Ä", "⋯", "p", "fel", ",", " süß", "er", " Apfel", null];

describe("words", () => {
  it("are found where they begin, whatever tokens they are cut into", () => {
    expect(tokensWith(TEXTS, "Äpfel")).toEqual([4]);
    expect(tokensWith(TEXTS, "süß")).toEqual([0, 9]);
    expect(tokensWith(TEXTS, "APFEL")).toEqual([11]);
    expect(tokensWith(TEXTS, "süße äpfel, süßer")).toEqual([0]);
  });

  it("are nowhere where the text has none", () => {
    expect(tokensWith(TEXTS, "Birne")).toEqual([]);
    expect(tokensWith(TEXTS, "  ")).toEqual([]);
    expect(tokensWith([], "a")).toEqual([]);
  });

  it("name a token once, however often it holds them", () => {
    expect(tokensWith([" aaaa", "b"], "a")).toEqual([0]);
  });

  it("are looked for in all pages of the text", async () => {
    const ready = vi.fn(async () => undefined);
    const book = { ready, text: (n: number) => `t${n}` } as unknown as TokenBook;
    expect(await textsOf(book, 2500)).toHaveLength(2500);
    expect(ready.mock.calls).toEqual([[0], [1024], [2048]]);
  });
});

describe("where to go", () => {
  it("is a number in range, or words", () => {
    expect(numberIn(" 17 ", 0, 20)).toBe(17);
    expect([numberIn("21", 0, 20), numberIn("3", 4, 20), numberIn("the", 0, 20)]).toEqual([
      null,
      null,
      null,
    ]);
    expect(numberIn("1e1", 0, 20)).toBeNull();
  });

  it("is the next place of several, once around", () => {
    expect([nextAfter([3, 9, 12], 3), nextAfter([3, 9, 12], 12), nextAfter([], 1)]).toEqual([
      9,
      3,
      undefined,
    ]);
  });
});
