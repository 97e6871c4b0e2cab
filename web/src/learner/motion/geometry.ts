import { say } from "../language";
import type { FilmNumbers } from "./numbers";

// Where things stand on the stage. One unit is a sixteenth of the root's type size, so that type
// is as large as the page's, on a phone and on a projector; the stage is as wide as its place.

export const EDGE = 8;
export const OPERATOR = 14; // between two columns, where a + may stand

export interface Grid {
  readonly width: number;
  readonly isNarrow: boolean;
  /** Type size of numbers and labels. */
  readonly size: number;
  /** Where labels begin, and how much room they have. */
  readonly labelX: number;
  readonly labelRoom: number;
  /** Where what follows a label begins. */
  readonly bodyX: number;
  readonly rowHeight: number;
  /** Keys, and a row for those left out. */
  readonly rows: number;
  /** The first key's top; above it there is a row for q or the names of columns. */
  readonly top: number;
  readonly bottom: number;
}

const NARROW = 540;
const FEW = 8;

/** The rows of the scenes with keys: the same in all of them, so that a token stays where it is. */
export function gridOf(numbers: FilmNumbers, width: number, rail = 0): Grid {
  const isNarrow = width < NARROW;
  const size = isNarrow ? 12.5 : 14;
  const rows = numbers.keys.length + (numbers.rest ? 1 : 0);
  const rowHeight = rows > FEW ? 38 : 44;
  const labels = [numbers.label, ...numbers.keys.map((key) => key.label)];
  const widest = Math.max(
    ...labels.map((label) => labelWidth(`k(${label})`, size)),
    labelWidth(moreLabel(numbers), size),
  );
  const labelRoom = Math.min(Math.max(widest, 48), isNarrow ? 84 : 150);
  const top = rowHeight + 4;
  const labelX = EDGE + rail;
  return {
    width,
    isNarrow,
    size,
    labelX,
    labelRoom,
    bodyX: labelX + labelRoom + 10,
    rowHeight,
    rows,
    top,
    bottom: top + rows * rowHeight,
  };
}

/** How many keys are not drawn; empty where all are. */
export function moreLabel({ rest }: FilmNumbers): string {
  return rest ? `… ${say("motion.label_more", { count: rest.seen + rest.hidden })}` : "";
}

export function middleOf(grid: Grid, row: number): number {
  return grid.top + (row + 0.5) * grid.rowHeight;
}

/** How wide a number is in the monospaced face. */
export function numberWidth(text: string, size: number): number {
  return [...text].length * size * 0.61;
}

const WIDE = /[\u1100-\uffff]/u;

/** About how wide a word is in the page's face; letters of Chinese and others are square. */
export function labelWidth(text: string, size: number): number {
  let width = 0;
  for (const letter of text)
    width += WIDE.test(letter) ? 1.05 : /[A-Zmw—]/.test(letter) ? 0.8 : 0.57;
  return width * size;
}

/** The word, or its beginning where there is not enough room. */
export function clipped(text: string, room: number, size: number): string {
  if (labelWidth(text, size) <= room + 1) return text;
  const letters = [...text];
  while (letters.length > 1 && labelWidth(`${letters.join("")}…`, size) > room) letters.pop();
  return `${letters.join("")}…`;
}

/** k(cat): the word is clipped, not its brackets. */
export function roleLabel(role: string, label: string, grid: Grid): string {
  const room = grid.labelRoom - labelWidth(`${role}()`, grid.size);
  return `${role}(${clipped(label, room, grid.size)})`;
}

/** Columns of numbers, as many as there is room for. */
export interface Columns {
  readonly count: number;
  /** Whether some are left out, which "…" says. */
  readonly isCut: boolean;
  readonly width: number;
  /** The widest number. */
  readonly text: number;
  readonly start: number;
  /** After the last column and its "…". */
  readonly end: number;
}

const MOST_COLUMNS = 8;
const DOTS = 18;

interface Fit {
  readonly start: number;
  readonly room: number;
  readonly wanted: number;
  /** The widest number. */
  readonly text: number;
  /** Not narrower than this where there is room. */
  readonly least?: number;
}

export function fitColumns({ start, room, wanted, text, least = 0 }: Fit): Columns {
  const narrow = text + OPERATOR;
  const wide = Math.max(narrow, least);
  const width = wide * Math.min(wanted, MOST_COLUMNS) <= room ? wide : narrow;
  const isCut = wanted > MOST_COLUMNS || wanted * width > room;
  const fitting = Math.floor((room - (isCut ? DOTS : 0)) / width);
  const count = Math.max(Math.min(wanted, fitting, MOST_COLUMNS), 1);
  return { count, isCut, width, text, start, end: start + count * width + (isCut ? DOTS : 0) };
}

/** The right edge of a column's number. */
export function columnEdge(columns: Columns, index: number): number {
  return columns.start + (index + 1) * columns.width - OPERATOR / 2;
}

/** Where a sign stands before a column's number: in the middle of what is free there. */
export function signPlace(columns: Columns, index: number, text: number): number {
  return (columnEdge(columns, index - 1) + columnEdge(columns, index) - text) / 2;
}

/** A line of bars with its zero: from value to place. */
export interface Axis {
  readonly zero: number;
  readonly perUnit: number;
}

/** So that all values lie between `from` and `to`, and 0 with them. */
export function axisOf(values: readonly number[], from: number, to: number): Axis {
  const finite = values.filter(Number.isFinite);
  const [low, high] = [Math.min(0, ...finite), Math.max(0, ...finite)];
  const perUnit = high > low ? (to - from) / (high - low) : 0;
  return { zero: from - low * perUnit, perUnit };
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A bar from zero to a value, of either sign. */
export function barTo(axis: Axis, value: number, middle: number, height = 18): Box {
  const length = (Number.isFinite(value) ? value : 0) * axis.perUnit;
  const x = length < 0 ? axis.zero + length : axis.zero;
  return { x, y: middle - height / 2, width: Math.abs(length), height };
}

/** Between two boxes. */
export function between(from: Box, to: Box, share: number): Box {
  const mix = (a: number, b: number) => a + (b - a) * share;
  return {
    x: mix(from.x, to.x),
    y: mix(from.y, to.y),
    width: mix(from.width, to.width),
    height: mix(from.height, to.height),
  };
}
