import type { Rgb } from "../../colour/palette";
import { shade } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import { count } from "../../maths/format";
import type { Scale } from "../../source/answers";
import type { Strips } from "../../source/training";
import { roundStep } from "../head/axis";
import { rgbOf } from "../head/inks";
import { styled } from "../head/styled";
import { binOf, cellOf, type Row } from "./choice";
import { FOOT, leftOf, type StripLayout } from "./stripLayout";

// One canvas a strip: an image of a pixel for each head and column of bins, stretched to its place.

const FONT = "11px system-ui, sans-serif";
const TICK_ROOM = 84; // pixels from one step's number to the next

export interface StripPicture {
  readonly strips: Strips;
  readonly rows: readonly Row[];
  readonly places: readonly string[];
  readonly scale: Scale;
  readonly layout: StripLayout;
}

export function paintStrip(canvas: HTMLCanvasElement, picture: StripPicture, ratio: number): void {
  const { layout, rows } = picture;
  canvas.width = Math.round((layout.left + layout.width + 1) * ratio);
  canvas.height = Math.round(layout.height * ratio);
  const pen = canvas.getContext("2d");
  if (!pen || !layout.bins || !rows.length) return;
  pen.scale(ratio, ratio);
  pen.font = FONT;
  pen.textBaseline = "middle";
  pen.imageSmoothingEnabled = false;
  const columns = Math.max(Math.min(layout.bins, Math.floor(layout.width * ratio)), 1);
  const image = imageOf(picture, columns, rgbOf(styled("--hidden")));
  for (const [first, heads] of groupsOf(rows)) {
    const top = layout.tops[first] ?? 0;
    const from = [0, first, columns, heads] as const;
    pen.drawImage(image, ...from, layout.left, top, layout.width, heads * layout.row);
  }
  paintNames(pen, picture);
  paintSteps(pen, picture);
}

/** Where each layer's rows begin, and how many there are. */
function groupsOf(rows: readonly Row[]): readonly (readonly [first: number, heads: number])[] {
  const found: [number, number][] = [];
  rows.forEach((one, n) => {
    const last = found.at(-1);
    if (last && rows[last[0]]?.place === one.place) last[1] += 1;
    else found.push([n, 1]);
  });
  return found;
}

function imageOf(picture: StripPicture, columns: number, hidden: Rgb): HTMLCanvasElement {
  const { rows, scale } = picture;
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows.length;
  const image = new ImageData(columns, rows.length);
  rows.forEach((row, y) => {
    const values = columnsOf(picture.strips, cellOf(row, picture.strips), columns);
    values.forEach((value, x) => {
      const rgb = Number.isNaN(value) ? hidden : shade(shareOf(value, scale));
      image.data.set([...rgb, 255], 4 * (y * columns + x));
    });
  });
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}

/** A head's numbers in so many columns; where bins share a column, their mean. */
export function columnsOf(strips: Strips, cell: number, columns: number): Float64Array {
  const bins = strips.first.length;
  const found = new Float64Array(columns);
  for (let x = 0; x < columns; x += 1) {
    const start = Math.floor((x * bins) / columns);
    const stop = Math.max(Math.floor(((x + 1) * bins) / columns), start + 1);
    let sum = 0;
    let known = 0;
    for (let bin = start; bin < stop; bin += 1) {
      const value = strips.mean[bin * strips.cells + cell] ?? Number.NaN;
      if (Number.isNaN(value)) continue;
      sum += value;
      known += 1;
    }
    found[x] = known ? sum / known : Number.NaN;
  }
  return found;
}

function paintNames(pen: CanvasRenderingContext2D, { layout, rows, places }: StripPicture): void {
  pen.textAlign = "right";
  if (layout.isNumbered) {
    pen.fillStyle = styled("--soft");
    rows.forEach(({ head }, n) => {
      pen.fillText(String(head), layout.left - 6, (layout.tops[n] ?? 0) + layout.row / 2);
    });
  }
  pen.fillStyle = styled("--ink");
  const right = layout.left - (layout.isNumbered ? 26 : 6);
  let free = 0;
  for (const [first, heads] of groupsOf(rows)) {
    const top = layout.tops[first] ?? 0;
    const y = layout.isNumbered ? top + layout.row / 2 : top + (heads * layout.row) / 2;
    if (y < free) continue; // layers of few heads stand closer than their names
    free = y + 12;
    pen.fillText(places[rows[first]?.place ?? 0] ?? "", right, y);
  }
}

function paintSteps(pen: CanvasRenderingContext2D, { layout, strips }: StripPicture): void {
  const y = layout.height - FOOT;
  pen.fillStyle = styled("--soft");
  pen.strokeStyle = styled("--line");
  ticksOf(layout, strips).forEach(({ x, step }, n) => {
    pen.textAlign = n === 0 ? "left" : "center";
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x, y + 4);
    pen.stroke();
    const text = n === 0 ? `step ${count(step)}` : count(step);
    pen.fillText(text, n === 0 ? layout.left : x, y + 12);
  });
}

/** The first step, then round ones, as far apart as their numbers need. */
export function ticksOf(layout: StripLayout, strips: Strips) {
  const [first = 0, last = 0] = [strips.first[0], strips.last.at(-1)];
  const every = roundStep(((last - first + 1) * TICK_ROOM) / Math.max(layout.width, 1));
  const place = (step: number) => leftOf(layout, binOf(step, strips) + 0.5);
  const found = [{ step: first, x: place(first) }];
  for (let step = (Math.floor(first / every) + 1) * every; step <= last; step += every) {
    const x = place(step);
    const isFree = x - (found.at(-1)?.x ?? 0) >= TICK_ROOM / 2;
    if (isFree && x < layout.left + layout.width - 16) found.push({ step, x });
  }
  return found;
}
