// Where the cells of a layer × head grid lie, in CSS pixels. Layers go down, heads go across.

export interface Cell {
  readonly layer: number;
  readonly head: number;
}

export interface GridLayout {
  readonly layers: number;
  readonly heads: number;
  /** Pixels from one cell to the next. */
  readonly step: number;
  /** Pixels of a cell itself. */
  readonly size: number;
  /** Where the first cell begins. */
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

const LABELS = { left: 44, top: 18 } as const;
const LEAST_STEP = 8;
const MOST_STEP = 160;
const ABOVE = 300; // pixels of a window that other things take
const READABLE = [40, 64] as const; // below it, height no longer matters: in a narrow, a wide window
const WINDOW = 1080;

/** As large as the width allows, and as fits into the window where that is still readable. */
export function layoutOf(
  width: number,
  layers: number,
  heads: number,
  tall: number = WINDOW,
): GridLayout {
  const across = (width - LABELS.left) / Math.max(heads, 1);
  const readable = Math.min(Math.max(width / 16, READABLE[0]), READABLE[1]);
  const down = Math.max((tall - ABOVE) / Math.max(layers, 1), readable);
  const step = Math.floor(Math.min(Math.max(Math.min(across, down), LEAST_STEP), MOST_STEP));
  const gap = step >= 14 ? 2 : 1;
  return {
    layers,
    heads,
    step,
    size: step - gap,
    left: LABELS.left,
    top: LABELS.top,
    width: LABELS.left + heads * step,
    height: LABELS.top + layers * step,
  };
}

/** How wide the grid is where width is no matter. */
export function naturalWidth(layers: number, heads: number): number {
  return layoutOf(Number.POSITIVE_INFINITY, layers, heads).width;
}

/** The cell at a point; null beside the cells. */
export function cellAt(layout: GridLayout, x: number, y: number): Cell | null {
  const head = Math.floor((x - layout.left) / layout.step);
  const layer = Math.floor((y - layout.top) / layout.step);
  const isInside = head >= 0 && head < layout.heads && layer >= 0 && layer < layout.layers;
  return isInside ? { layer, head } : null;
}

export function cornerOf(
  layout: GridLayout,
  cell: Cell,
): { readonly x: number; readonly y: number } {
  return { x: layout.left + cell.head * layout.step, y: layout.top + cell.layer * layout.step };
}

/** One step with an arrow key; the edges hold. */
export function moved(layout: GridLayout, cell: Cell, key: string): Cell {
  const layer = cell.layer + (key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0);
  const head = cell.head + (key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0);
  return {
    layer: Math.min(Math.max(layer, 0), layout.layers - 1),
    head: Math.min(Math.max(head, 0), layout.heads - 1),
  };
}

/** Every how many cells a number is printed, so that numbers do not touch. */
export function labelEvery(step: number, room: number): number {
  return [1, 2, 4, 5, 8, 10, 16, 20, 32].find((n) => n * step >= room) ?? 64;
}
