import { roundUp } from "../../maths/format";
import type { Comparison, Grid, Overview, Scale, Stack } from "../../source/answers";

const LEAST = 1e-6;

/** From equal to the farthest there is. */
export function distanceScale(found: Comparison): Scale {
  const high = Math.min(roundUp(Math.max(found.largest, LEAST)), 1);
  return { name: "distance", low: 0, high, log: false, hidden: 0, first: 1, last: 255 };
}

/** The distances of a stack's heads, layer by layer; null where two cannot be compared. */
export function distanceGrid(found: Comparison, overview: Overview, stack: Stack): Grid {
  const known = new Map(found.heads.map((one) => [one.label, one.distance]));
  const grid = Array.from({ length: stack.layers }, () =>
    Array.from({ length: stack.heads }, () => null as number | null),
  );
  for (const head of overview.heads) {
    const row = head.stack === stack.name ? grid[head.layer] : undefined;
    if (row) row[head.head] = known.get(head.label) ?? null;
  }
  return grid;
}
