import { expect, test } from "vitest";
import { copier, habitsOf } from "../../src/play/habits";
import { striking } from "../../src/play/weights";
import { blockOf } from "./made";

const IDS = [5, 7, 8, 9, 7, 8]; // two words come again
const SIZE = IDS.length;

function head(at: (row: number) => number): number[][] {
  return IDS.map((_, row) => IDS.map((__, key) => (key === at(row) ? 1 : 0)));
}

const before = head((row) => Math.max(row - 1, 0));
const itself = head((row) => row);
const rest = head(() => 0);
const copies = head((row) => (row === 4 ? 2 : row === 5 ? 3 : 0)); // what followed 7, and 8
const same = head((row) => (row === 4 ? 1 : row === 5 ? 2 : 0));
const block = blockOf(before, itself, rest, copies, same);

test("a head is named by where its weight goes", () => {
  const habits = habitsOf(block, IDS).map((one) => one.habit);
  expect(habits).toEqual(["before", "itself", "rest", "after", "same"]);
});

test("shares are of the rows in which it is possible, and of what does not rest", () => {
  const [first, , third, fourth] = habitsOf(block, IDS);
  expect(first?.share).toBeCloseTo(1);
  expect(third).toMatchObject({ habit: "rest", awake: 0 });
  expect(fourth?.share).toBeCloseTo(1);
  expect(fourth?.awake).toBeCloseTo(2 / (SIZE - 1));
});

test("the head that copies, and none where none does", () => {
  expect(copier(block, habitsOf(block, IDS))).toMatchObject({ layer: 0, head: 3 });
  const without = blockOf(before, itself);
  expect(copier(without, habitsOf(without, IDS))).toBeNull();
});

test("the most striking head reads one word that is neither the first nor a neighbour", () => {
  expect(striking(block)).toEqual({ layer: 0, head: 3 });
});
