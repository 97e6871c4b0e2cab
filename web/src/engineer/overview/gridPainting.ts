import { css, shade } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import type { Grid, Scale } from "../../source/answers";
import { NO_PICTURE, type Thumbnails } from "../../source/binary";
import { type Cell, cornerOf, type GridLayout, labelEvery } from "./gridLayout";

// A layer × head grid on one canvas: 1,024 heads are 1,024 strokes of a pen, not 1,024 elements.

export type Paint =
  | { readonly kind: "values"; readonly values: Grid; readonly scale: Scale }
  | { readonly kind: "pictures"; readonly given: Thumbnails; readonly atlas: HTMLCanvasElement };

export interface Inks {
  readonly ink: string;
  readonly soft: string;
  readonly line: string;
  readonly paper: string;
  readonly hidden: string;
}

/** Which layers zoom to single weights. */
export type Exactness = "all" | "some" | "none";

export interface Picture {
  readonly layout: GridLayout;
  readonly paint: Paint;
  readonly isRecorded: (cell: Cell) => boolean;
  /** Whether a filter leaves the head out. */
  readonly isFaint: (cell: Cell) => boolean;
  /** One for each layer; null where no mark is wanted. */
  readonly exactness: readonly Exactness[] | null;
}

const FAINT = 0.12;

export function inksOf(element: Element): Inks {
  const style = getComputedStyle(element);
  const [ink, soft, line, paper, hidden] = ["ink", "soft", "line", "paper", "hidden"].map((name) =>
    style.getPropertyValue(`--${name}`).trim(),
  ) as [string, string, string, string, string];
  return { ink, soft, line, paper, hidden };
}

export function paintGrid(
  canvas: HTMLCanvasElement,
  picture: Picture,
  inks: Inks,
  ratio: number,
): void {
  const { layout } = picture;
  canvas.width = Math.round(layout.width * ratio);
  canvas.height = Math.round(layout.height * ratio);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  pen.imageSmoothingQuality = "high";
  paintLabels(pen, picture, inks);
  for (let layer = 0; layer < layout.layers; layer += 1) {
    for (let head = 0; head < layout.heads; head += 1) {
      pen.globalAlpha = picture.isFaint({ layer, head }) ? FAINT : 1;
      paintCell(pen, picture, { layer, head }, inks);
    }
  }
}

function paintCell(pen: CanvasRenderingContext2D, picture: Picture, cell: Cell, inks: Inks): void {
  const { layout, paint } = picture;
  const { x, y } = cornerOf(layout, cell);
  if (!isKnown(paint, cell)) {
    const mark = picture.isRecorded(cell) ? paintHatch : paintDot;
    mark(pen, x, y, layout.size, inks);
  } else if (paint.kind === "values") {
    const value = paint.values[cell.layer]?.[cell.head] ?? Number.NaN;
    pen.fillStyle = css(shade(shareOf(value, paint.scale)));
    pen.fillRect(x, y, layout.size, layout.size);
  } else {
    const { side } = paint.given;
    const from = [cell.head * side, cell.layer * side, side, side] as const;
    pen.imageSmoothingEnabled = layout.size < side; // what is enlarged stays sharp
    pen.drawImage(paint.atlas, ...from, x, y, layout.size, layout.size);
  }
}

function isKnown(paint: Paint, cell: Cell): boolean {
  if (paint.kind === "values") return (paint.values[cell.layer]?.[cell.head] ?? null) !== null;
  const kind = paint.given.kinds[cell.layer * paint.given.heads + cell.head];
  return kind !== undefined && kind !== NO_PICTURE;
}

/** A head that was not recorded. */
function paintDot(
  pen: CanvasRenderingContext2D,
  x: number,
  y: number,
  size: number,
  inks: Inks,
): void {
  pen.fillStyle = inks.soft;
  pen.beginPath();
  pen.arc(x + size / 2, y + size / 2, 1.2, 0, 2 * Math.PI);
  pen.fill();
}

/** A head that was recorded, of which this is not known. */
function paintHatch(
  pen: CanvasRenderingContext2D,
  x: number,
  y: number,
  size: number,
  inks: Inks,
): void {
  pen.strokeStyle = inks.line;
  pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  pen.beginPath();
  pen.moveTo(x, y + size);
  pen.lineTo(x + size, y);
  pen.stroke();
}

const FONT = "11px system-ui, sans-serif";

function paintLabels(pen: CanvasRenderingContext2D, picture: Picture, inks: Inks): void {
  const { layout } = picture;
  pen.font = FONT;
  pen.fillStyle = inks.soft;
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  const across = labelEvery(layout.step, layout.heads > 10 ? 22 : 16);
  for (let head = 0; head < layout.heads; head += across) {
    const name = head === 0 && layout.step >= 20 ? "H0" : String(head);
    pen.fillText(name, layout.left + head * layout.step + layout.size / 2, layout.top / 2);
  }
  pen.textAlign = "right";
  const down = labelEvery(layout.step, 13);
  for (let layer = 0; layer < layout.layers; layer += 1) {
    const middle = layout.top + layer * layout.step + layout.size / 2;
    pen.fillStyle = inks.soft;
    if (layer % down === 0) pen.fillText(`L${layer}`, layout.left - 17, middle);
    paintExactness(pen, picture.exactness?.[layer], layout.left - 9, middle, inks);
  }
}

/** ● every head of the layer zooms to single weights, ◐ some do, ○ none. */
function paintExactness(
  pen: CanvasRenderingContext2D,
  mark: Exactness | undefined,
  x: number,
  y: number,
  inks: Inks,
): void {
  if (mark === undefined) return;
  pen.strokeStyle = inks.soft;
  pen.fillStyle = inks.soft;
  pen.beginPath();
  pen.arc(x, y, 2.6, 0, 2 * Math.PI);
  pen.stroke();
  if (mark === "none") return;
  pen.beginPath();
  if (mark === "all") pen.arc(x, y, 2.6, 0, 2 * Math.PI);
  else pen.arc(x, y, 2.6, Math.PI / 2, 1.5 * Math.PI);
  pen.fill();
}
