import { css, shade } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import type { Scale } from "../../source/answers";
import { styled } from "../head/styled";
import { type Cell, type GridPart, onPicture, placedOf } from "./layout";
import { contour, type Drawing, levelsOf, pixels } from "./shades";

/** What is drawn on one picture. */
export interface BoardScene {
  readonly part: GridPart;
  readonly window: number;
  readonly image: ImageBitmap | null;
  /** rows × columns of the whole picture; null where nothing lies on it. */
  readonly values: Float32Array | null;
  readonly scale: Scale;
  readonly drawing: Drawing;
  readonly opacity: number;
  /** The patch that looks or is looked at. */
  readonly spot: Cell | null;
  /** The patch whose weight is read. */
  readonly read: Cell | null;
  readonly looks: boolean;
}

export interface Area {
  readonly width: number;
  readonly height: number;
}

export function paintBoard(pen: CanvasRenderingContext2D, area: Area, scene: BoardScene): void {
  pen.fillStyle = styled("--hidden");
  pen.fillRect(0, 0, area.width, area.height);
  if (scene.image) {
    // colours are the weights': the picture keeps few of its own below them
    if (scene.values && scene.drawing !== "contour") {
      pen.filter = `grayscale(${Math.min(scene.opacity * 1.2, 1)})`;
    }
    pen.drawImage(scene.image, 0, 0, area.width, area.height);
    pen.filter = "none";
  }
  if (scene.values) paintValues(pen, area, scene, scene.values);
  paintWindow(pen, area, scene);
  if (scene.read) outline(pen, area, scene, scene.read, styled(scene.looks ? "--k" : "--q"));
  if (scene.spot) outline(pen, area, scene, scene.spot, styled(scene.looks ? "--q" : "--k"));
}

function paintValues(
  pen: CanvasRenderingContext2D,
  area: Area,
  scene: BoardScene,
  values: Float32Array,
): void {
  const { rows, columns } = placedOf(scene.part.grid, scene.window);
  if (scene.drawing === "contour") {
    if (!scene.image) paintCells(pen, area, scene, values, 0.4);
    paintLines(pen, area, scene, values, rows, columns);
  } else {
    paintCells(pen, area, scene, values, scene.opacity);
  }
}

function paintCells(
  pen: CanvasRenderingContext2D,
  area: Area,
  { part, window, scale, drawing }: BoardScene,
  values: Float32Array,
  opacity: number,
): void {
  const { rows, columns } = placedOf(part.grid, window);
  const small = new OffscreenCanvas(columns, rows);
  const data = new ImageData(pixels(values, scale, drawing, opacity), columns, rows);
  small.getContext("2d")?.putImageData(data, 0, 0);
  pen.imageSmoothingEnabled = drawing === "heat";
  pen.imageSmoothingQuality = "high";
  pen.drawImage(small, 0, 0, area.width, area.height);
  pen.imageSmoothingEnabled = true;
  const side = area.width / columns;
  if (drawing === "patches" && side >= 9) paintGaps(pen, area, rows, columns);
}

function paintGaps(pen: CanvasRenderingContext2D, area: Area, rows: number, columns: number): void {
  pen.strokeStyle = "rgb(0 0 0 / 0.25)";
  pen.lineWidth = 1;
  pen.beginPath();
  for (let n = 1; n < columns; n += 1) {
    const x = Math.round((n * area.width) / columns) + 0.5;
    pen.moveTo(x, 0);
    pen.lineTo(x, area.height);
  }
  for (let n = 1; n < rows; n += 1) {
    const y = Math.round((n * area.height) / rows) + 0.5;
    pen.moveTo(0, y);
    pen.lineTo(area.width, y);
  }
  pen.stroke();
}

function paintLines(
  pen: CanvasRenderingContext2D,
  area: Area,
  { scale, opacity }: BoardScene,
  values: Float32Array,
  rows: number,
  columns: number,
): void {
  const [across, down] = [area.width / columns, area.height / rows];
  pen.lineCap = "round";
  pen.globalAlpha = 0.3 + 0.7 * opacity;
  for (const level of levelsOf(scale)) {
    pen.beginPath();
    for (const [x1, y1, x2, y2] of contour(values, rows, columns, level)) {
      pen.moveTo(x1 * across, y1 * down);
      pen.lineTo(x2 * across, y2 * down);
    }
    pen.strokeStyle = "rgb(0 0 0 / 0.7)";
    pen.lineWidth = 4;
    pen.stroke();
    pen.strokeStyle = css(shade(0.4 + 0.6 * shareOf(level, scale)));
    pen.lineWidth = 2;
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

/** Outside the window that a head is about, the picture is dimmed. */
function paintWindow(pen: CanvasRenderingContext2D, area: Area, scene: BoardScene): void {
  const { grid } = scene.part;
  const { top, left, ...placed } = placedOf(grid, scene.window);
  const { rows, columns } = placed;
  if (placed.down === grid.height && placed.across === grid.width) return;
  const [across, down] = [area.width / columns, area.height / rows];
  pen.fillStyle = "rgb(0 0 0 / 0.45)";
  const isIn = (n: number, start: number, size: number, all: number) =>
    (n - start + all) % all < size;
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const isRow = isIn(row, top, grid.height, placed.down);
      if (isRow && isIn(column, left, grid.width, placed.across)) continue;
      pen.fillRect(column * across, row * down, across + 0.5, down + 0.5);
    }
  }
}

function outline(
  pen: CanvasRenderingContext2D,
  area: Area,
  { part, window }: BoardScene,
  cell: Cell,
  ink: string,
): void {
  const { rows, columns } = placedOf(part.grid, window);
  const { row, column } = onPicture(part.grid, window, cell);
  const [across, down] = [area.width / columns, area.height / rows];
  const grow = Math.max(0, 7 - across) / 2; // small patches get a frame around them
  const box = [
    column * across - grow,
    row * down - grow,
    across + 2 * grow,
    down + 2 * grow,
  ] as const;
  pen.strokeStyle = "rgb(255 255 255 / 0.95)";
  pen.lineWidth = 5;
  pen.strokeRect(...box);
  pen.strokeStyle = ink;
  pen.lineWidth = 2.5;
  pen.strokeRect(...box);
}
