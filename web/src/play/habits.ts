import type { Block } from "./api";

// Where a head's weight goes on this prompt, apart from the first word, on which most heads rest.

export type Habit = "after" | "same" | "before" | "itself" | "elsewhere" | "rest";

export const HABITS: readonly (readonly [Habit, string])[] = [
  ["after", "what followed the same word"],
  ["same", "the same word, earlier"],
  ["before", "the word before"],
  ["itself", "the word itself"],
  ["elsewhere", "other words"],
  ["rest", "rests on the first word"],
];

export interface HeadHabit {
  readonly habit: Habit;
  /** The share of weight by which the habit is named, over the rows where it is possible. */
  readonly share: number;
  /** What does not rest on the first word. */
  readonly awake: number;
}

const LEAST = 0.25; // of what is not at rest

/** Earlier places of each row's own token, and those right behind them; the word before a row is
 * left out, which would be another habit. */
function copiesOf(ids: readonly number[]): { same: number[]; after: number[] }[] {
  const places = new Map<number, number[]>();
  return ids.map((id, row) => {
    const same = [...(places.get(id) ?? [])];
    places.set(id, [...same, row]);
    const isFar = (at: number) => at < row - 1;
    return { same: same.filter(isFar), after: same.map((at) => at + 1).filter(isFar) };
  });
}

/** Of every head of a block whose rows are its keys; (layer · heads + head). */
export function habitsOf(block: Block, ids: readonly number[]): HeadHabit[] {
  const copies = copiesOf(ids);
  return Array.from({ length: block.layers * block.heads }, (_, n) => habitOf(block, n, copies));
}

function habitOf(
  block: Block,
  head: number,
  copies: readonly { same: readonly number[]; after: readonly number[] }[],
): HeadHabit {
  const sums = { after: 0, same: 0, before: 0, itself: 0 };
  const off = { after: 0, same: 0, before: 0, itself: 0 }; // weight not at rest in the same rows
  let awake = 0;
  for (let row = 1; row < block.rows; row += 1) {
    const start = (head * block.rows + row) * block.keys;
    const at = (key: number) => block.numbers[start + key] ?? 0;
    const free = 1 - at(0);
    awake += free;
    const { same = [], after = [] } = copies[row] ?? {};
    const add = (name: keyof typeof sums, keys: readonly number[]) => {
      if (!keys.length) return;
      sums[name] += keys.filter((key) => key > 0).reduce((sum, key) => sum + at(key), 0);
      off[name] += free;
    };
    add("itself", [row]);
    if (row > 1) add("before", [row - 1]);
    add("same", same);
    add("after", after);
  }
  const rows = Math.max(block.rows - 1, 1);
  const shares = (Object.keys(sums) as (keyof typeof sums)[]).map(
    (name) => [name, off[name] > 0 ? sums[name] / off[name] : 0] as const,
  );
  const best = shares.reduce((a, b) => (b[1] > a[1] ? b : a));
  if (awake / rows < 0.1) return { habit: "rest", share: 1 - awake / rows, awake: awake / rows };
  const habit: Habit = best[1] >= LEAST ? best[0] : "elsewhere";
  const share = habit === "elsewhere" ? 1 - best[1] : best[1];
  return { habit, share, awake: awake / rows };
}

/** The head that looks most at what followed the same word, where one does. */
export function copier(
  block: Block,
  habits: readonly HeadHabit[],
): { layer: number; head: number; share: number } | null {
  let best: { layer: number; head: number; share: number } | null = null;
  habits.forEach(({ habit, share, awake }, n) => {
    const weight = share * awake;
    if (habit !== "after" || (best && weight <= best.share)) return;
    best = { layer: Math.floor(n / block.heads), head: n % block.heads, share: weight };
  });
  return best;
}
