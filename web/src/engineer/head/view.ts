// What part of the matrix is on the screen. Rows of the matrix are queries, columns keys; both
// axes have the same scale, so a cell is a square.

/** The token coordinates at the middle of the screen, and CSS pixels per token. */
export interface View {
  readonly x: number;
  readonly y: number;
  readonly z: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Shape {
  readonly queries: number;
  readonly keys: number;
}

export interface Cell {
  readonly row: number;
  readonly key: number;
}

export interface Bounds {
  readonly shape: Shape;
  /** CSS pixels per token at the strongest zoom. */
  readonly most: number;
}

export const MOST_ZOOM = 48;
/** Pixels of the finest map at most, where single cells are not known. */
export const MOST_COARSE = 16;

/** Pixels per token at which all of the matrix is seen. */
export function fitZoom(shape: Shape, size: Size): number {
  return Math.min(size.width / Math.max(shape.keys, 1), size.height / Math.max(shape.queries, 1));
}

export function mostZoom(isExact: boolean, finest: number): number {
  return isExact ? MOST_ZOOM : MOST_COARSE / Math.max(finest, 1);
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), Math.max(low, high));
}

/** No emptier than it must be: what is smaller than the screen stands at its upper left. */
export function bounded(view: View, size: Size, bounds: Bounds): View {
  const least = fitZoom(bounds.shape, size);
  const z = clamp(view.z, least, Math.max(bounds.most, least));
  const half = { x: size.width / z / 2, y: size.height / z / 2 };
  return {
    x: clamp(view.x, half.x, bounds.shape.keys - half.x),
    y: clamp(view.y, half.y, bounds.shape.queries - half.y),
    z,
  };
}

export function wholeView(shape: Shape, size: Size): View {
  const z = fitZoom(shape, size);
  return { x: size.width / z / 2, y: size.height / z / 2, z };
}

/** The token coordinates of the upper left corner. */
export function originOf(view: View, size: Size): { readonly x: number; readonly y: number } {
  return { x: view.x - size.width / view.z / 2, y: view.y - size.height / view.z / 2 };
}

/** Moved by CSS pixels: what is under a finger stays under it. */
export function panned(view: View, right: number, down: number): View {
  return { ...view, x: view.x - right / view.z, y: view.y - down / view.z };
}

/** Nearer by a factor; the token under `at` (CSS pixels from the upper left) stays there. */
export function zoomed(
  view: View,
  size: Size,
  bounds: Bounds,
  factor: number,
  at: { readonly x: number; readonly y: number },
): View {
  const least = fitZoom(bounds.shape, size);
  const z = clamp(view.z * factor, least, Math.max(bounds.most, least));
  const away = { x: at.x - size.width / 2, y: at.y - size.height / 2 };
  return bounded(
    { x: view.x + away.x / view.z - away.x / z, y: view.y + away.y / view.z - away.y / z, z },
    size,
    bounds,
  );
}

/** The cell under a point; null beyond the matrix. */
export function cellAt(
  view: View,
  size: Size,
  shape: Shape,
  at: { readonly x: number; readonly y: number },
): Cell | null {
  const origin = originOf(view, size);
  const row = Math.floor(origin.y + at.y / view.z);
  const key = Math.floor(origin.x + at.x / view.z);
  if (row < 0 || key < 0 || row >= shape.queries || key >= shape.keys) return null;
  return { row, key };
}

/** Moved just so far that the cell is seen, with a little around it. */
export function withCell(view: View, size: Size, bounds: Bounds, cell: Cell): View {
  const shown = (middle: number, length: number, n: number) => {
    const half = Math.max(length / view.z / 2 - Math.min(2, length / view.z / 4), 0.5);
    return clamp(middle, n + 0.5 - half, n + 0.5 + half);
  };
  return bounded(
    { ...view, x: shown(view.x, size.width, cell.key), y: shown(view.y, size.height, cell.row) },
    size,
    bounds,
  );
}
