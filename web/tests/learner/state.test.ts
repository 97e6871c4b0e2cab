import { expect, it } from "vitest";
import type { LessonData } from "../../src/learner/data";
import { tellingRow } from "../../src/learner/make";
import { ignoredIn } from "../../src/learner/parts/link";
import { askedIn, numberIn } from "../../src/learner/parts/place";
import {
  edit,
  editCount,
  FIRST_STEP,
  flip,
  forgetEdits,
  goToStep,
  LAST_STEP,
  makeState,
  nextToken,
} from "../../src/learner/state";
import { vectors } from "../maths/vectors";

const IDENTITY = [
  [1, 0],
  [0, 1],
];

const LESSON = {
  tokens: ["a", "b"],
  labels: ["a", "b"],
  row: 1,
  options: {},
  embeddings: { source: "", made_up: [], words: IDENTITY, positions: IDENTITY },
  projections: "",
  heads: [{ w_q: IDENTITY, w_k: IDENTITY, w_v: IDENTITY }],
  w_o: null,
  block: { w_1: IDENTITY, w_2: IDENTITY },
} as unknown as LessonData;

it("lets every later step follow an edit, and puts it back", () => {
  const state = makeState(LESSON);
  const before = state.worksOn.value.weights[0]?.[0];
  edit(state, "words", 0, 0, 3);
  expect(state.worksOn.value.scores[0]).toEqual([9, 0]);
  edit(state, "h0.scores", 0, 0, 1);
  expect(state.worksOn.value.weights[0]?.[0]).toBeCloseTo(before ?? 0, 12);
  expect(editCount(state)).toBe(2);
  forgetEdits(state);
  expect(state.worksOn.value.scores[0]).toEqual([1, 0]);
});

it("flips what the lesson is computed with", () => {
  const state = makeState(LESSON);
  flip(state, "causal");
  expect(state.worksOn.value.masked[0]?.[1]).toBe(Number.NEGATIVE_INFINITY);
});

it("stays within the steps and goes round the tokens", () => {
  const state = makeState(LESSON);
  for (const beyond of [FIRST_STEP - 1, LAST_STEP + 1]) goToStep(state, beyond);
  expect(state.step.value).toBe(FIRST_STEP);
  expect(state.focus.value).toBe(1);
  nextToken(state);
  expect(state.focus.value).toBe(0);
});

it("reads numbers of an address and nothing else", () => {
  expect(numberIn("3", 9, 1)).toBe(3);
  for (const wrong of [undefined, "", "0", "10", "2.5", "x", "-1"])
    expect(numberIn(wrong, 9, 4)).toBe(4);
  expect(numberIn("0", 9, 4, 0)).toBe(0);
});

it("changes the sentence, forgets what was put in by hand and keeps the switches", () => {
  const state = makeState(vectors.lessons.notes?.data as LessonData);
  edit(state, "words", 0, 0, 3);
  flip(state, "causal");
  goToStep(state, 5);
  state.change({ sentence: " The  cat slept ", vectors: "features", heads: "by-hand" });
  expect(state.lesson.tokens).toEqual(["The", "cat", "slept"]);
  expect(state.worked.value.heads.length).toBe(2);
  expect(editCount(state)).toBe(0);
  expect([state.step.value, state.focus.value, state.given.value.causal]).toEqual([5, 1, true]);
  state.change({ vectors: "smollm2" });
  expect(state.asked.value.heads).toBe("one"); // those made by hand are for features
  expect(state.lesson.heads.length).toBe(1);
});

it("takes no sentence that is empty or too long", () => {
  const state = makeState(vectors.lessons.notes?.data as LessonData);
  state.change({ sentence: "  " });
  state.change({ sentence: "w ".repeat(25) });
  expect(state.chosen.value).toBeNull();
  state.change({ sentence: "w ".repeat(24) });
  expect(state.lesson.tokens.length).toBe(24);
});

it("says so where a page came with numbers that none of its choices give", () => {
  const as = (name: string) => makeState(vectors.lessons[name]?.data as LessonData).isAsGiven.value;
  expect([as("notes"), as("positions"), as("random"), as("heads")]).toEqual([
    false,
    false,
    true,
    true,
  ]);
});

it("reads sentence, vectors and heads of an address, and leaves out what cannot be", () => {
  const came = { sentence: "a", vectors: "notes", heads: "one" } as const;
  expect(askedIn({ step: "3" }, came)).toBeNull();
  expect(askedIn({ sentence: "b  c", vectors: "features", heads: "by-hand" }, came)).toEqual({
    sentence: "b c",
    vectors: "features",
    heads: "by-hand",
  });
  expect(askedIn({ vectors: "nonsense", heads: "by-hand" }, came)).toEqual(came);
  expect(askedIn({ sentence: "w ".repeat(30) }, came)).toBeNull();
  expect(askedIn({ vectors: "nonsense", heads: "bar" }, came)).toBeNull();
});

it("brings back what was put in by hand when a lesson is come back to", () => {
  const state = makeState(vectors.lessons.notes?.data as LessonData);
  edit(state, "words", 0, 0, 3);
  state.change({ sentence: "A bird" });
  expect([editCount(state), state.left.value?.count]).toEqual([0, 1]);
  edit(state, "words", 1, 1, 4);
  state.choose(null); // the back button
  expect(state.edits.value.get("words")?.get("0,0")).toBe(3);
  expect(state.left.value).toBeNull();
  state.change({ sentence: "A bird" });
  expect(state.edits.value.get("words")?.get("1,1")).toBe(4);
  state.left.value?.undo();
  expect(state.lesson.tokens).toEqual(["The", "cat", "sat"]);
  expect(state.edits.value.get("words")?.get("0,0")).toBe(3);
});

it("says nothing of a change that leaves nothing behind", () => {
  const state = makeState(vectors.lessons.notes?.data as LessonData);
  state.change({ sentence: "A bird" });
  expect(state.left.value).toBeNull();
});

it("does not bring back what was put back by hand", () => {
  const state = makeState(vectors.lessons.notes?.data as LessonData);
  edit(state, "words", 0, 0, 3);
  state.change({ sentence: "A bird" });
  state.choose(null);
  forgetEdits(state);
  state.change({ sentence: "A bird" });
  state.choose(null);
  expect(editCount(state)).toBe(0);
});

it("spells out a row that has a score", () => {
  const state = makeState(vectors.lessons.notes?.data as LessonData);
  const sentence = "She sat on the bank of the river";
  state.change({ sentence, vectors: "features", heads: "by-hand" });
  expect(state.lesson.tokens[state.focus.value]).toBe("bank");
  expect(state.worksOn.value.scores[state.focus.value]?.some((score) => score !== 0)).toBe(true);
  expect(tellingRow([[0], [0]], undefined)).toBe(0);
});

it("names what an address asks for and cannot be given", () => {
  const state = makeState(vectors.lessons.notes?.data as LessonData);
  const words = (at: Record<string, string>) => ignoredIn(at, state).map(({ word }) => word);
  expect(words({ step: "99", row: "4", head: "x" })).toEqual(["step", "row", "head"]);
  expect(words({ vectors: "foo", heads: "bar", language: "xx" })).toEqual([
    "vectors",
    "heads",
    "language",
  ]);
  expect(words({ sentence: "w ".repeat(30) })).toEqual(["sentence"]);
  expect(words({ heads: "by-hand" })).toEqual(["heads"]); // the notes' vectors are no features
  expect(words({ step: "0", row: "3", vectors: "smollm2", sentence: "a b", head: "1" })).toEqual(
    [],
  );
  expect(words({ view: "lesson", head: "3.2" })).toEqual([]); // of another room
});
