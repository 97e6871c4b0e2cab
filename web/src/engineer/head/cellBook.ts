import { signal } from "@preact/signals";
import type { Cells } from "../../source/binary";
import type { SourceError } from "../../source/source";
import { asSourceError } from "../answer";
import { noteFailure } from "../states/connection";
import { Lru } from "./lru";
import type { Cell, Shape } from "./view";

// Exact weights around where the reader points, by small squares.

export const SQUARE = 16;
const MOST_SQUARES = 512;

export interface ExactCell {
  /** NaN where it is hidden, ∞ where it is no number. */
  readonly weight: number;
  /** Keys that the row may see; NaN where it was not recorded. */
  readonly visible: number;
}

export type LoadCells = (
  rows: readonly [number, number],
  keys: readonly [number, number],
) => Promise<Cells>;

interface Square extends Cells {
  readonly row: number;
  readonly key: number;
  readonly wide: number;
}

export class CellBook {
  readonly news = signal(0);
  /** Why the last square that was asked for did not come. */
  readonly failure = signal<SourceError | null>(null);
  readonly #squares = new Lru<Square>(MOST_SQUARES);
  readonly #asked = new Set<string>();
  readonly #load: LoadCells;
  readonly #shape: Shape;

  constructor(shape: Shape, load: LoadCells) {
    this.#shape = shape;
    this.#load = load;
  }

  get(cell: Cell): ExactCell | undefined {
    const square = this.#squares.get(nameOf(cell));
    if (!square) return undefined;
    const down = cell.row - square.row;
    const weight = square.weights[down * square.wide + cell.key - square.key];
    return { weight: weight ?? Number.NaN, visible: square.visible[down] ?? Number.NaN };
  }

  /** Ask for the square around a cell, unless it is here or asked for. */
  async ask(cell: Cell): Promise<void> {
    const name = nameOf(cell);
    if (this.#squares.has(name) || this.#asked.has(name)) return;
    this.#asked.add(name);
    const row = cell.row - (cell.row % SQUARE);
    const key = cell.key - (cell.key % SQUARE);
    const tall = Math.min(SQUARE, this.#shape.queries - row);
    const wide = Math.min(SQUARE, this.#shape.keys - key);
    try {
      const cells = await this.#load([row, tall], [key, wide]);
      this.#squares.put(name, { ...cells, row, key, wide });
      this.failure.value = null;
      this.news.value += 1;
    } catch (error) {
      this.failure.value = asSourceError(error);
      noteFailure(this.failure.value);
    } finally {
      this.#asked.delete(name);
    }
  }
}

function nameOf(cell: Cell): string {
  return `${Math.floor(cell.row / SQUARE)},${Math.floor(cell.key / SQUARE)}`;
}
