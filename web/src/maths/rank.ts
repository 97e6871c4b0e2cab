import type { Matrix } from "./matrix";

const NOTHING = 1e-9; // of the largest number

/** How many rows of a matrix say something that the others do not. */
export function rank(matrix: Matrix): number {
  const rows = matrix.map((row) => [...row]);
  const least = NOTHING * Math.max(...rows.flat().map(Math.abs), 0);
  const width = rows[0]?.length ?? 0;
  let found = 0;
  for (let column = 0; column < width && found < rows.length; column += 1) {
    const at = largestBelow(rows, found, column);
    const pivot = rows[at] as number[];
    if (Math.abs(pivot[column] ?? 0) <= least) continue;
    [rows[at], rows[found]] = [rows[found] as number[], pivot];
    for (let r = found + 1; r < rows.length; r += 1) {
      const row = rows[r] as number[];
      const factor = (row[column] ?? 0) / (pivot[column] ?? 1);
      for (let c = column; c < width; c += 1) row[c] = (row[c] ?? 0) - factor * (pivot[c] ?? 0);
    }
    found += 1;
  }
  return found;
}

function largestBelow(rows: Matrix, from: number, column: number): number {
  let best = from;
  for (let r = from + 1; r < rows.length; r += 1) {
    if (Math.abs(rows[r]?.[column] ?? 0) > Math.abs(rows[best]?.[column] ?? 0)) best = r;
  }
  return best;
}
