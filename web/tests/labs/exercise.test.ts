import { describe, expect, it } from "vitest";
import type { Exercise } from "../../src/learner/data";
import {
  blankFor,
  columnNames,
  firstWrong,
  resultOf,
  rowsShown,
  taskOf,
  withCell,
} from "../../src/learner/labs/exercise";
import { ANSWERS, mark, type Written } from "../../src/maths/grading";
import { stateOf } from "./state";

const exercise = stateOf("notes").lesson.exercises[0] as Exercise;
const task = taskOf(exercise);

/** Every answer, rounded to so many places. */
function solved(places: number): Written {
  const { steps } = mark(task, blankFor(exercise));
  return Object.fromEntries(
    ANSWERS.map((answer) => [
      answer,
      steps[answer].right.value.map((row) => row.map((value) => value.toFixed(places))),
    ]),
  ) as unknown as Written;
}

describe("an exercise", () => {
  it("starts with every cell open, and nothing is wrong", () => {
    const found = mark(task, blankFor(exercise));
    expect(found.filled).toBe(0);
    expect(found.firstWrong).toBeUndefined();
  });

  it("is right when it is worked to two places or to six", () => {
    for (const places of [2, 6]) {
      const found = mark(task, solved(places));
      expect(found.firstWrong).toBeUndefined();
      expect(found.filled).toBe(found.cells);
    }
  });

  it("names the first wrong step and follows the learner's own numbers after it", () => {
    const right = solved(4);
    const slip = withCell(right, "scores", 0, 1, "99.0000");
    const found = mark(task, slip);
    expect(firstWrong(exercise, slip, found)).toMatchObject({
      answer: "scores",
      place: `${exercise.tokens[0]} → ${exercise.tokens[1]}`,
      given: "99.0000",
      right: Number(right.scores[0]?.[1]),
    });
    const followed = withCell(slip, "scaled", 0, 1, (99 / Math.SQRT2).toFixed(4));
    expect(mark(task, followed).steps.scaled.cells[0]?.[1]).toBe("right");
    expect(found.steps.scaled.cells[0]?.[1]).toBe("wrong");
  });

  it("says of a cell that it cannot be read", () => {
    const found = mark(task, withCell(blankFor(exercise), "Q", 0, 0, "two"));
    expect(found.steps.Q.cells[0]?.[0]).toBe("unreadable");
    expect(found.firstWrong).toBeUndefined();
    expect(resultOf(found)).toEqual({
      verdict: "unreadable",
      words: "1 cell could not be read: write 0.42, 3, 1/2 or 42 %. Right so far: 0 cells.",
    });
  });

  it("of one row shows all keys and values but one query", () => {
    expect(rowsShown(exercise, "K", 1)).toEqual([0, 1, 2]);
    expect(rowsShown(exercise, "weights", 1)).toEqual([1]);
    expect(rowsShown(exercise, "weights", "all")).toEqual([0, 1, 2]);
    expect(columnNames(exercise, "weights")).toEqual(exercise.tokens);
    expect(columnNames(exercise, "V")).toEqual(["1", "2"]);
  });
});
