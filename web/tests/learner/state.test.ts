import { expect, it } from "vitest";
import type { LessonData } from "../../src/learner/data";
import { numberIn } from "../../src/learner/parts/place";
import {
  edit,
  editCount,
  flip,
  forgetEdits,
  goToStep,
  makeState,
  nextToken,
} from "../../src/learner/state";

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
  goToStep(state, 0);
  goToStep(state, 10);
  expect(state.step.value).toBe(1);
  expect(state.focus.value).toBe(1);
  nextToken(state);
  expect(state.focus.value).toBe(0);
});

it("reads numbers of an address and nothing else", () => {
  expect(numberIn("3", 9, 1)).toBe(3);
  for (const wrong of [undefined, "", "0", "10", "2.5", "x", "-1"])
    expect(numberIn(wrong, 9, 4)).toBe(4);
});
