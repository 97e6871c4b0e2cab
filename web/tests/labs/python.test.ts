import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { pythonCode } from "../../src/learner/export/python";
import { numbersByName } from "../../src/learner/export/saved";
import type { LessonState } from "../../src/learner/state";
import { expectMatrix, vectors } from "../maths/vectors";
import { editedState, stateOf } from "./state";

type Printed = Readonly<Record<string, readonly (readonly (number | null)[])[]>>;

function ran(state: LessonState, ...options: string[]): string {
  const given = { input: pythonCode(state), encoding: "utf8" } as const;
  return execFileSync(vectors.python, ["-", ...options], given);
}

function expectSame(state: LessonState): void {
  const printed = JSON.parse(ran(state, "--json")) as Printed;
  const wanted = numbersByName(state.worked.value);
  expect(Object.keys(printed)).toEqual(Object.keys(wanted));
  for (const [name, matrix] of Object.entries(wanted)) expectMatrix(matrix, printed[name] ?? []);
}

describe("the Python code computes every number of the page", () => {
  for (const name of ["notes", "causal", "heads", "narrow values", "block"]) {
    it(name, () => expectSame(stateOf(name)));
  }
});

describe("also where numbers were put in by hand", () => {
  for (const name of ["notes", "causal", "block"]) {
    it(name, () => expectSame(editedState(name)));
  }
});

it("without --json it prints the steps to read", () => {
  const text = ran(stateOf("notes"));
  expect(text).toContain("The cat sat");
  expect(text).toContain("[0.8446 0.5777 0.8446 0.5777]");
});

it("a sentence with quotes and backslashes is still Python", () => {
  const state = stateOf("notes");
  const tokens = ['say"""', "\\n", "‘x’"];
  expect(ran({ ...state, lesson: { ...state.lesson, tokens } })).toContain("\\n");
});
