import { afterEach, describe, expect, it } from "vitest";
import german from "../../../src/regard/learn/languages/de.json";
import english from "../../../src/regard/learn/languages/en.json";
import chinese from "../../../src/regard/learn/languages/zh.json";
import {
  chooseLanguage,
  language,
  listed,
  phrase,
  say,
  sayPhrase,
  startLanguage,
} from "../../src/learner/language";
import { wordsOfStep } from "../../src/learner/steps/words";

const TABLES = { en: english, de: german, zh: chinese };

afterEach(() => startLanguage({ en: english }, "en"));

describe("sentences", () => {
  it("are said in the language that is chosen, at once", () => {
    startLanguage(TABLES, "en");
    expect(wordsOfStep(3).name).toBe("Scores");
    chooseLanguage("zh");
    expect(wordsOfStep(3).name).toBe("得分");
    expect(language.value).toBe("zh");
  });

  it("keep their values, and leave marks out of plain text alone", () => {
    startLanguage(TABLES, "de");
    const token = "<b>x</b>";
    expect(say("sum.row", { name: token })).toContain(token);
    expect(say("embedding.input")).not.toContain("<b>");
  });

  it("count", () => {
    startLanguage(TABLES, "de");
    expect(say("controls.changed", { count: 1 })).toBe("1 Zahl geändert");
    expect(say("controls.changed", { count: 2 })).toBe("2 Zahlen geändert");
  });

  it("join lists with the language's comma", () => {
    startLanguage(TABLES, "zh");
    expect(listed(["a", "b", "c"])).toBe("a、b 和 c");
    chooseLanguage("de");
    expect(listed(["a", "b", "c"])).toBe("a, b und c");
  });

  it("say phrases inside phrases", () => {
    startLanguage(TABLES, "en");
    const inner = phrase("origins.random", { seed: 7 });
    expect(sayPhrase(phrase("origins.not_own", { source: inner }))).toMatch(/differ: w_q.*seed 7/);
  });

  it("refuse a value that is not there", () => {
    expect(() => say("sum.row")).toThrow("no value {name}");
  });
});

describe("the language at the start", () => {
  it("is the one asked for, by its first part", () => {
    startLanguage(TABLES, "de-AT");
    expect(language.value).toBe("de");
  });

  it("is English where the one asked for is not there", () => {
    startLanguage({ en: english }, "de");
    expect(language.value).toBe("en");
  });
});
