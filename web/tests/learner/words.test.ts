import { expect, it } from "vitest";
import { LAST_STEP } from "../../src/learner/state";
import { WORDS } from "../../src/learner/steps/words";

it("has words for every step", () => {
  expect(WORDS).toHaveLength(LAST_STEP);
});

it.each(WORDS)("says why in at most 60 words: $name", ({ why, question, answer }) => {
  expect(why.split(/\s+/).length).toBeLessThanOrEqual(60);
  expect(question).toMatch(/\?$/);
  expect(answer).not.toBe("");
});
