import { describe, expect, it } from "vitest";
import { ANSWERS, mark, readCell, readCells, type Written } from "../../src/maths/grading";
import { expectMatrix, vectors } from "./vectors";

const exercises = vectors.lessons.notes?.data.exercises ?? [];

function taskOf(seed: number) {
  const exercise = exercises.find((one) => one.seed === seed);
  const head = exercise?.heads[0];
  if (!exercise || !head) throw new Error(`no exercise of seed ${seed}`);
  return { x: exercise.x, ...head };
}

describe("hand calculations are judged as Python judges them", () => {
  for (const given of vectors.gradings) {
    it(`exercise ${given.seed}: ${given.name}`, () => {
      const found = mark(taskOf(given.seed), given.cells as Written);
      expect(found.firstWrong?.answer ?? null).toBe(given.first_wrong);
      for (const answer of ANSWERS) {
        const { printed, right, cells } = found.steps[answer];
        const wanted = given.steps[answer];
        if (!wanted) throw new Error(`Python did not judge ${answer}`);
        expectMatrix(printed.units, wanted.units);
        expectMatrix(right.value, wanted.value);
        expectMatrix(right.low, wanted.low);
        expectMatrix(right.high, wanted.high);
        expect(cells.map((row) => row.map((cell) => cell === "wrong"))).toEqual(wanted.wrong);
      }
    });
  }
});

describe("cells", () => {
  for (const { text, read } of vectors.cells) {
    it(`are read as Python reads them: "${text}"`, () => {
      const found = readCell(text);
      if (read === null) return expect(found).toBeNull();
      const wanted = [read.value ?? Number.NaN, read.unit ?? Number.NaN];
      const same = [found?.value, found?.unit].map(
        (part, n) => Object.is(part, wanted[n]) || Math.abs((part ?? 0) - (wanted[n] ?? 0)) < 1e-12,
      );
      expect(same, `${found?.value}, ${found?.unit}`).toEqual([true, true]);
    });
  }

  it("are decimals, whole numbers or fractions", () => {
    expect(readCell("0.50")).toEqual({ value: 0.5, unit: 0.01 });
    expect(readCell("1/2")).toEqual({ value: 0.5, unit: 0 });
    expect(readCell("2.718/5.436 = 0.50")).toEqual({ value: 0.5, unit: 0.01 });
    expect(readCell("etwa 0.50")).toEqual({ value: 0.5, unit: 0.01 });
    expect(readCell("1/2 =")).toBeNull();
    expect(readCell(" −3 ")).toEqual({ value: -3, unit: Number.NaN });
    expect(readCell(".5e-1")?.value).toBeCloseTo(0.05, 15);
  });

  it("are blank with a question mark or a dash", () => {
    for (const text of ["", "  ", "?", "–", "…"]) expect(readCell(text)?.value).toBeNaN();
  });

  it("cannot be read where they are no number", () => {
    for (const text of ["cat", "1/0", "1,000", "1e999", "0x10"]) expect(readCell(text)).toBeNull();
  });

  it("that are whole are as fine as their neighbours", () => {
    const unit = readCells([
      ["1", "0.25"],
      ["2", "3"],
    ]).units;
    expectMatrix(unit, [
      [0.01, 0.01],
      [0.01, 0.01],
    ]);
    expect(readCells([["1", "2"]]).units).toEqual([[0, 0]]);
  });
});
