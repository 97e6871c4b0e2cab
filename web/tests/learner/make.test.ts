import { expect, it } from "vitest";
import type { LessonData } from "../../src/learner/data";
import { makeLesson } from "../../src/learner/make";
import { vectors } from "../maths/vectors";

const from = vectors.lessons.random?.data as LessonData;

/** Numbers that two machines' powers and sines may round differently are compared closely. */
function expectSame(found: unknown, wanted: unknown, where: string): void {
  if (typeof wanted === "number") expect(found, where).toBeCloseTo(wanted, 12);
  else if (wanted === null || typeof wanted !== "object") expect(found, where).toBe(wanted);
  else {
    expect(Object.keys(found as object).sort(), where).toEqual(Object.keys(wanted).sort());
    for (const [key, value] of Object.entries(wanted)) {
      expectSame((found as Record<string, unknown>)[key], value, `${where}.${key}`);
    }
  }
}

for (const { asked, data } of vectors.made) {
  it(`makes what Python makes: ${asked.sentence.slice(0, 30)}, ${asked.vectors}, ${asked.heads}`, () => {
    const made = makeLesson(from, asked);
    for (const [name, value] of Object.entries(data)) {
      if (name === "row") continue; // the page opens at a row that has a score
      expectSame(made[name as keyof LessonData], value, name);
    }
  });
}

it("keeps what does not depend on the sentence", () => {
  const made = makeLesson({ ...from, edits: { x: { "0,0": 3 } } }, vectors.made[4]?.asked as never);
  expect(made.exercises).toBe(from.exercises);
  expect(made.edits).toBeUndefined();
});
