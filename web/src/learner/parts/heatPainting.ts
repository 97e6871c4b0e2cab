import { isLight } from "../../colour/palette";
import { figure, HIDDEN } from "../../maths/format";
import { type Heat, heatColour } from "./heat";
import type { HeatLayout } from "./heatLayout";

interface Inks {
  readonly ink: string;
  readonly soft: string;
  readonly paper: string;
  readonly hidden: string;
  readonly accent: string;
  readonly mono: string;
  readonly text: string;
}

function inksOf(style: CSSStyleDeclaration): Inks {
  const own = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const [ink, soft, paper, hidden] = [own("ink"), own("soft"), own("paper"), own("hidden")];
  return {
    ...{ ink, soft, paper, hidden },
    accent: own("accent"),
    mono: `${style.fontSize} ${own("mono")}`,
    text: `${style.fontSize} ${style.fontFamily}`,
  };
}

/** The whole picture, with as many pixels as the screen has. */
export function paintHeat(canvas: HTMLCanvasElement, heat: Heat, layout: HeatLayout): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(layout.width * ratio);
  canvas.height = Math.round(layout.height * ratio);
  const pen = canvas.getContext("2d");
  if (!pen || layout.width <= layout.left) return;
  const inks = inksOf(getComputedStyle(canvas));
  pen.scale(ratio, ratio);
  paintCells(pen, heat, layout, inks, ratio);
  if (layout.detail === "none") {
    paintMark(pen, heat.mark, layout, inks);
    return;
  }
  paintLines(pen, layout, inks);
  paintNames(pen, heat, layout, inks);
  if (layout.detail === "numbers") paintNumbers(pen, heat, layout, inks);
}

type Pen = CanvasRenderingContext2D;

/** One pixel a cell, enlarged as it is; averaged where a cell is less than a pixel of the screen. */
function paintCells(pen: Pen, heat: Heat, layout: HeatLayout, inks: Inks, ratio: number): void {
  const { count, left, top } = layout;
  const [width, height] = [count * layout.cellWidth, count * layout.cellHeight];
  const image = new ImageData(count, count);
  for (let row = 0; row < count; row += 1) {
    for (let key = 0; key < count; key += 1) {
      const colour = heatColour(heat, row, key);
      if (colour) image.data.set([...colour, 255], 4 * (row * count + key));
    }
  }
  const cells = new OffscreenCanvas(count, count);
  cells.getContext("2d")?.putImageData(image, 0, 0);
  pen.fillStyle = inks.hidden;
  pen.fillRect(left, top, width, height);
  pen.imageSmoothingEnabled = layout.cellWidth * ratio < 1;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(cells, left, top, width, height);
}

function paintLines(pen: Pen, layout: HeatLayout, inks: Inks): void {
  const { count, left, top, cellWidth, cellHeight } = layout;
  pen.fillStyle = inks.paper;
  for (let n = 1; n < count; n += 1) {
    pen.fillRect(left + n * cellWidth - 1, top, 1, count * cellHeight);
    pen.fillRect(left, top + n * cellHeight - 1, count * cellWidth, 1);
  }
}

function paintNumbers(pen: Pen, heat: Heat, layout: HeatLayout, inks: Inks): void {
  const { left, top, cellWidth, cellHeight } = layout;
  pen.font = inks.mono;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  heat.weights.forEach((weights, row) => {
    weights.forEach((weight, key) => {
      const colour = heatColour(heat, row, key);
      pen.fillStyle = colour ? (isLight(colour) ? "black" : "white") : inks.soft;
      const at = [left + (key + 0.5) * cellWidth, top + (row + 0.5) * cellHeight] as const;
      pen.fillText(colour ? figure(weight, 2) : HIDDEN, ...at);
    });
  });
}

/** Rows at the left; columns above, upright where the cells are narrow. */
function paintNames(pen: Pen, heat: Heat, layout: HeatLayout, inks: Inks): void {
  const { left, top, cellWidth, cellHeight } = layout;
  pen.textBaseline = "middle";
  heat.labels.forEach((label, n) => {
    const isMarked = n === heat.mark;
    pen.font = isMarked ? `bold ${inks.text}` : inks.text;
    pen.fillStyle = isMarked ? inks.ink : inks.soft;
    pen.textAlign = "right";
    pen.fillText(fitted(pen, label, left - 8), left - 6, top + (n + 0.5) * cellHeight);
    pen.font = inks.text;
    pen.fillStyle = inks.soft;
    const middle = left + (n + 0.5) * cellWidth;
    if (layout.detail === "numbers") {
      pen.textAlign = "center";
      pen.fillText(fitted(pen, label, cellWidth - 2), middle, top / 2);
      return;
    }
    pen.save();
    pen.translate(middle, top - 5);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "left";
    pen.fillText(fitted(pen, label, top - 7), 0, 0);
    pen.restore();
  });
}

/** As much of a text as there is room for. */
function fitted(pen: Pen, text: string, room: number): string {
  if (pen.measureText(text).width <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return `${letters.join("")}…`;
}

/** A pointer at the row that is spelt out elsewhere. */
function paintMark(pen: Pen, row: number, layout: HeatLayout, inks: Inks): void {
  const middle = layout.top + (row + 0.5) * layout.cellHeight;
  const size = layout.left * 0.4;
  pen.fillStyle = inks.accent;
  pen.beginPath();
  pen.moveTo(layout.left - 2 - size, middle - size);
  pen.lineTo(layout.left - 2, middle);
  pen.lineTo(layout.left - 2 - size, middle + size);
  pen.fill();
}
