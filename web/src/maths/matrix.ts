// Rows are tokens throughout, as in src/regard/attention.py: queries = x @ w_q.

export type Vector = readonly number[];
export type Matrix = readonly Vector[];

export function dot(a: Vector, b: Vector): number {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += (a[i] as number) * (b[i] as number);
  return sum;
}

export function transpose(m: Matrix): number[][] {
  return Array.from({ length: m[0]?.length ?? 0 }, (_, c) => m.map((row) => row[c] as number));
}

/** (n, m) @ (m, p) → (n, p) */
export function multiply(a: Matrix, b: Matrix): number[][] {
  const columns = transpose(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
}

export function map(m: Matrix, change: (value: number, r: number, c: number) => number) {
  return m.map((row, r) => row.map((value, c) => change(value, r, c)));
}

export function add(a: Matrix, b: Matrix): number[][] {
  return map(a, (value, r, c) => value + (b[r]?.[c] as number));
}

export function norm(v: Vector): number {
  return Math.hypot(...v);
}
