import { expect, it } from "vitest";
import { FIRST_STEP, LAST_STEP } from "../../src/learner/state";
import { ALL_STEPS, wordsOfStep } from "../../src/learner/steps/words";

it("has words for every step", () => {
  expect(ALL_STEPS.at(0)).toBe(FIRST_STEP);
  expect(ALL_STEPS.at(-1)).toBe(LAST_STEP);
});

it.each(ALL_STEPS)("says why in at most 60 words: step %i", (step) => {
  const { name, title, why, question, answer } = wordsOfStep(step);
  expect(why.split(/\s+/).length).toBeLessThanOrEqual(60);
  expect(question).toMatch(/\?$/);
  for (const words of [name, title, answer]) expect(words).not.toBe("");
});
