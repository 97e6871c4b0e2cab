import { short } from "../../maths/format";
import type { Line } from "./Chart";

const LABEL = 15; // pixels between two names

/** Where a value stands between two ends, 0 … 1. */
export function shareBetween(
  value: number,
  [low, high]: readonly [number, number],
  log: boolean,
): number {
  if (high === low) return 0.5;
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

/** Round ends that hold all values: decades on a log axis, from 0 on a linear one. */
export function axisOf(values: readonly number[], log: boolean) {
  const positive = values.filter((value) => value > 0);
  const most = positive.length ? Math.max(...positive) : 1;
  if (!log) {
    const unit = 10 ** Math.floor(Math.log10(most));
    const top = Math.ceil(most / unit) * unit;
    return { ends: [0, top] as const, ticks: [0, top / 2, top] };
  }
  const least = positive.length ? Math.min(...positive) : 1;
  const first = Math.floor(Math.log10(least));
  const last = Math.max(Math.ceil(Math.log10(most)), first + 1);
  const ticks = Array.from({ length: last - first + 1 }, (_, n) => 10 ** (first + n));
  return { ends: [10 ** first, 10 ** last] as const, ticks };
}

/** 0.01, 100, and 10⁻⁴ rather than 1×10⁻⁴. */
export function powerText(value: number): string {
  return value < 1e-3 ? short(value).replace(/^1×/, "") : short(value);
}

/** The names at the lines' ends, moved apart where two ends are close. */
export function placedNames(
  lines: readonly Line[],
  down: (y: number) => number,
  top: number,
  foot: number,
): { readonly line: Line; readonly y: number }[] {
  const ends = lines
    .map((line) => ({ line, y: down(line.points.at(-1)?.[1] ?? 0) }))
    .sort((a, b) => a.y - b.y);
  let free = top;
  const placed = ends.map(({ line, y }) => {
    const at = Math.max(y, free);
    free = at + LABEL;
    return { line, y: at };
  });
  const over = Math.max(0, free - LABEL - foot);
  return placed.map(({ line, y }) => ({ line, y: y - over }));
}
