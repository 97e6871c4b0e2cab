import type { AxisPart, GridPlace, SightedPlace } from "../../source/answers";

// Where positions lie: as src/regard/axes.py and src/regard/views/picture.py define it.

export type AxisParts = readonly AxisPart[];

export interface GridPart extends AxisPart {
  readonly grid: GridPlace;
}

export interface Cell {
  readonly frame: number;
  readonly row: number;
  readonly column: number;
}

/** The whole picture in patches, and where the grid's first patch lies on it; from the last row of
 *  all windows (`down`, `across`), which may lie beyond the picture, it goes on at the first. */
export interface Placed {
  readonly rows: number;
  readonly columns: number;
  readonly down: number;
  readonly across: number;
  readonly top: number;
  readonly left: number;
  /** Of frame 0; −1 for none. */
  readonly picture: number;
}

export function isGrid(part: AxisPart): part is GridPart {
  return part.grid !== null;
}

export function sizeOf(axis: AxisParts): number {
  return axis.reduce((sum, part) => sum + part.count, 0);
}

export function partAt(axis: AxisParts, position: number): AxisPart | undefined {
  return axis.find((part) => position >= part.start && position < part.start + part.count);
}

/** Frame, row and column of a position; null for one of the prefix. */
export function cellOf({ start, grid }: GridPart, position: number): Cell | null {
  const patch = position - start - grid.prefix.length;
  if (patch < 0) return null;
  const size = grid.height * grid.width;
  const at = patch % size;
  const cell = grid.order?.[at] ?? at;
  return {
    frame: Math.floor(patch / size),
    row: Math.floor(cell / grid.width),
    column: cell % grid.width,
  };
}

const inverses = new WeakMap<readonly number[], readonly number[]>();

function inverse(order: readonly number[]): readonly number[] {
  let found = inverses.get(order);
  if (!found) {
    const places = new Array<number>(order.length).fill(0);
    order.forEach((cell, n) => {
      places[cell] = n;
    });
    found = places;
    inverses.set(order, found);
  }
  return found;
}

export function positionOf({ start, grid }: GridPart, { frame, row, column }: Cell): number {
  const cell = row * grid.width + column;
  const at = grid.order ? (inverse(grid.order)[cell] ?? cell) : cell;
  return start + grid.prefix.length + frame * grid.height * grid.width + at;
}

/** Windows there are; 1 where the grid is whole. */
export function windowsOf(axis: AxisParts): number {
  const grid = axis.find(isGrid)?.grid;
  return grid ? grid.windows[0] * grid.windows[1] : 1;
}

/** Which window a head stands for, and its number within the window's heads. */
export function windowOf(place: SightedPlace, axis: AxisParts, head: number) {
  const own = Math.max(Math.floor(place.heads / windowsOf(axis)), 1);
  return { window: Math.floor(head / own), own: head % own, heads: own };
}

export function placedOf(grid: GridPlace, window: number): Placed {
  const { height, width, windows, shift, picture } = grid;
  const [rows, columns] = grid.size;
  if (grid.apart) {
    const own = picture < 0 ? picture : picture + window;
    return { rows, columns, down: rows, across: columns, top: 0, left: 0, picture: own };
  }
  const [down, across] = [height * windows[0], width * windows[1]];
  const row = Math.floor(window / windows[1]);
  const column = window % windows[1];
  return {
    ...{ rows, columns, down, across, picture },
    top: (row * height + shift) % down,
    left: (column * width + shift) % across,
  };
}

const MOST_FRAMES = 64;

/** The frames of a grid that are drawn, each by itself. */
export function framesOf({ grid }: GridPart): readonly number[] {
  return Array.from({ length: Math.min(grid.frames, MOST_FRAMES) }, (_, n) => n);
}

/** The frame of a position; 0 where it lies elsewhere. */
export function frameAt(axis: AxisParts, part: GridPart, position: number): number {
  return (partAt(axis, position) === part && cellOf(part, position)?.frame) || 0;
}

/** The number of the picture that a frame lies on; −1 for none. */
export function pictureOf({ grid }: GridPart, window: number, frame: number): number {
  const { picture } = placedOf(grid, window);
  return picture < 0 || grid.apart ? picture : picture + frame;
}

/** rows × columns numbers of the whole picture; NaN outside a window. What lies beyond the picture
 *  is left out. */
export function laid(
  part: GridPart,
  numbers: ArrayLike<number>,
  frame: number,
  window: number,
): Float32Array {
  const { grid, start } = part;
  const { rows, columns, down, across, top, left } = placedOf(grid, window);
  const found = new Float32Array(rows * columns).fill(Number.NaN);
  const size = grid.height * grid.width;
  const first = start + grid.prefix.length + frame * size;
  for (let n = 0; n < size; n += 1) {
    const cell = grid.order?.[n] ?? n;
    const row = (top + Math.floor(cell / grid.width)) % down;
    const column = (left + (cell % grid.width)) % across;
    if (row < rows && column < columns) {
      found[row * columns + column] = numbers[first + n] ?? Number.NaN;
    }
  }
  return found;
}

/** The patch at a point, in fractions of the picture; null outside the window. */
export function cellAt(
  grid: GridPlace,
  window: number,
  at: { readonly x: number; readonly y: number },
  frame: number,
): Cell | null {
  const { rows, columns, down, across, top, left } = placedOf(grid, window);
  const row = (clamped(at.y, rows) - top + down) % down;
  const column = (clamped(at.x, columns) - left + across) % across;
  return row < grid.height && column < grid.width ? { frame, row, column } : null;
}

/** Which window holds a point, and the patch within it. */
export function windowAt(grid: GridPlace, at: { readonly x: number; readonly y: number }): number {
  const { rows, columns, down, across } = placedOf(grid, 0);
  const row = (clamped(at.y, rows) - grid.shift + down) % down;
  const column = (clamped(at.x, columns) - grid.shift + across) % across;
  return Math.floor(row / grid.height) * grid.windows[1] + Math.floor(column / grid.width);
}

function clamped(share: number, count: number): number {
  return Math.min(Math.max(Math.floor(share * count), 0), count - 1);
}

/** Where a cell lies on the whole picture, in patches. */
export function onPicture(grid: GridPlace, window: number, cell: Cell) {
  const { down, across, top, left } = placedOf(grid, window);
  return { row: (top + cell.row) % down, column: (left + cell.column) % across };
}

/** What a position is called; a token by its text where that is known. */
export function nameOf(axis: AxisParts, position: number, text?: string | null): string {
  const part = partAt(axis, position);
  if (!part) return `position ${position}`;
  const own = position - part.start;
  if (part.moments) return `${(part.moments.first + own * part.moments.seconds).toFixed(2)} s`;
  if (isGrid(part)) {
    const cell = cellOf(part, position);
    if (!cell) return part.grid.prefix[own] ?? `extra ${own}`;
    const where = `(${cell.row}, ${cell.column})`;
    return part.grid.frames > 1 ? `patch ${where} of frame ${cell.frame}` : `patch ${where}`;
  }
  if (part.kind === "text") return text ? `“${text}”` : `token ${own}`;
  return `${part.what || "position"} ${own}`;
}

const STEPS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** The position that an arrow key leads to: over patches in all four ways, else along the axis. */
export function moved(axis: AxisParts, position: number, key: string): number {
  const [down, across] = STEPS[key] ?? [0, 0];
  const part = partAt(axis, position);
  const cell = part && isGrid(part) ? cellOf(part, position) : null;
  if (!part || !isGrid(part) || !cell) return along(axis, position, down || across);
  const row = Math.min(Math.max(cell.row + down, 0), part.grid.height - 1);
  const column = Math.min(Math.max(cell.column + across, 0), part.grid.width - 1);
  return positionOf(part, { frame: cell.frame, row, column });
}

/** The next position or the one before, whatever it is. */
export function along(axis: AxisParts, position: number, by: number): number {
  return Math.min(Math.max(position + by, 0), sizeOf(axis) - 1);
}
