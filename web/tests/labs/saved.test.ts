import { describe, expect, it } from "vitest";
import english from "../../../src/regard/learn/languages/en.json";
import { fileStem } from "../../src/learner/export/download";
import { dataScript, numbersJson } from "../../src/learner/export/saved";
import { startLanguage } from "../../src/learner/language";
import { makeState } from "../../src/learner/state";
import { editedState, stateOf } from "./state";

describe("a saved page", () => {
  it("reopens with the same edits and the same numbers", () => {
    const state = editedState("causal");
    state.given.value = { ...state.given.value, scaled: false, withPositions: true };
    state.focus.value = 2;
    state.step.value = 6;
    const carried = JSON.parse(dataScript(state));
    expect(carried.kind).toBe("lesson");
    const again = makeState(carried.lesson);
    expect(again.edits.value).toEqual(state.edits.value);
    expect(again.given.value).toEqual(state.given.value);
    expect(again.worked.value).toEqual(state.worked.value);
    expect(again.focus.value).toBe(2);
    expect(again.step.value).toBe(6);
  });

  it("reopens in the language it was left in", () => {
    startLanguage({ en: english, de: english }, "de");
    expect(JSON.parse(dataScript(stateOf("notes"))).lesson.options.language).toBe("de");
    startLanguage({ en: english }, "en");
  });

  it("says the head that was spelt out, until another sentence has its own", () => {
    const state = stateOf("heads");
    state.head.value = 1;
    const again = makeState(JSON.parse(dataScript(state)).lesson);
    expect(again.head.value).toBe(1);
    again.change({ sentence: "The cat ran" });
    expect(again.head.value).toBe(0);
  });

  it("can be saved again from there", () => {
    const once = dataScript(editedState("notes"));
    expect(dataScript(makeState(JSON.parse(once).lesson))).toBe(once);
  });

  it("holds nothing that could end its script", () => {
    const state = stateOf("notes");
    const hostile = {
      ...state,
      lesson: { ...state.lesson, tokens: ["</script><b>", "<!--", "x"] },
    };
    const text = dataScript(hostile);
    expect(text).not.toContain("<");
    expect(JSON.parse(text).lesson.tokens[0]).toBe("</script><b>");
  });
});

describe("the numbers as JSON", () => {
  it("name every step, and are null where a score is hidden", () => {
    const found = JSON.parse(numbersJson(stateOf("causal")));
    expect(found["h0.masked"][0][1]).toBeNull();
    expect(found["h0.weights"][0][0]).toBe(1);
    expect(found.options).toEqual({ positions: false, scaled: true, causal: true });
    expect(found.block_output).toBeDefined();
  });

  it("say what was changed", () => {
    const found = JSON.parse(numbersJson(editedState("notes")));
    expect(found.changed["h0.scores"]).toEqual({ "0,0": 1 / 3 });
    expect(found.changed["h0.masked"]).toEqual({ "1,0": null });
  });
});

it("a file is named after the sentence", () => {
  expect(fileStem(["The", "cat", "sat"])).toBe("the-cat-sat");
  expect(fileStem(["¿Qué", "es", "esto?"])).toBe("qué-es-esto");
  expect(fileStem(["…", "!"])).toBe("lesson");
  expect(fileStem(["x".repeat(80)])).toHaveLength(40);
});
