import { signal } from "@preact/signals";
import type { Tile } from "../../source/binary";
import { SourceError } from "../../source/source";
import type { Ink } from "./inks";
import { Lru } from "./lru";
import { TILE, type TileAt, tileName } from "./tiling";

// Tiles that are here, on their way, or cannot be had.

const MOST_KEPT = 192;
const MOST_ASKED = 4;

/** A tile with its picture in the ink it was drawn with last. */
export interface KeptTile {
  readonly codes: Uint8Array;
  /** The largest code of each column of pixels. */
  readonly columns: Uint8Array;
  readonly picture: HTMLCanvasElement;
  ink: string;
}

export type LoadTile = (at: TileAt, stop: AbortSignal) => Promise<Tile>;

export class TileStore {
  /** Counts what came, so that whoever draws draws again. */
  readonly news = signal(0);
  readonly failure = signal<SourceError | null>(null);
  readonly waiting = signal(0);
  /** Whether a tile came in which something that may be seen is no number. */
  readonly isBroken = signal(false);
  readonly #kept = new Lru<KeptTile>(MOST_KEPT);
  readonly #asked = new Map<string, AbortController>();
  readonly #failed = new Set<string>();
  readonly #load: LoadTile;
  #wanted: readonly TileAt[] = [];

  constructor(load: LoadTile) {
    this.#load = load;
  }

  get(at: TileAt): KeptTile | undefined {
    return this.#kept.get(tileName(at));
  }

  /** These, the first ones first; requests for any other are given up. */
  want(tiles: readonly TileAt[]): void {
    this.#wanted = tiles.filter((at) => {
      const name = tileName(at);
      return !this.#kept.has(name) && !this.#failed.has(name);
    });
    const names = new Set(this.#wanted.map(tileName));
    for (const [name, control] of this.#asked) {
      if (names.has(name)) continue;
      control.abort();
      this.#asked.delete(name);
    }
    this.waiting.value = this.#wanted.length;
    this.#askNext();
  }

  /** Ask again for what failed. */
  retry(): void {
    this.#failed.clear();
    this.failure.value = null;
    this.news.value += 1;
  }

  /** When everything that is wanted is here. A picture with holes in it would be untrue: after
   * `patience` ms a SourceError says how much is missing. */
  complete(patience: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => settle(this.waiting.peek()), patience);
      const leave = this.waiting.subscribe((missing) => missing === 0 && settle(0));
      function settle(missing: number): void {
        clearTimeout(timer);
        queueMicrotask(() => leave());
        if (missing === 0) resolve();
        else
          reject(new SourceError(`The map is not whole yet: ${missing} tiles are to come.`, 409));
      }
    });
  }

  close(): void {
    this.#wanted = [];
    for (const control of this.#asked.values()) control.abort();
    this.#asked.clear();
  }

  #askNext(): void {
    for (const at of this.#wanted) {
      if (this.#asked.size >= MOST_ASKED) return;
      if (!this.#asked.has(tileName(at))) this.#ask(at);
    }
  }

  #ask(at: TileAt): void {
    const name = tileName(at);
    const control = new AbortController();
    this.#asked.set(name, control);
    this.#load(at, control.signal).then(
      (tile) => this.#come(name, control, () => this.#keep(name, tile)),
      (error: unknown) => this.#come(name, control, () => this.#fail(name, error)),
    );
  }

  #come(name: string, control: AbortController, keep: () => void): void {
    if (control.signal.aborted) return;
    this.#asked.delete(name);
    keep();
    this.#wanted = this.#wanted.filter((at) => tileName(at) !== name);
    this.waiting.value = this.#wanted.length;
    this.news.value += 1;
    this.#askNext();
  }

  #keep(name: string, tile: Tile): void {
    this.#kept.put(name, kept(tile));
    if (tile.nan > 0) this.isBroken.value = true;
  }

  #fail(name: string, error: unknown): void {
    this.#failed.add(name);
    if (!(error instanceof SourceError)) throw error;
    this.failure.value = error;
  }
}

function kept(tile: Tile): KeptTile {
  const columns = new Uint8Array(TILE);
  tile.codes.forEach((code, n) => {
    const column = n % TILE;
    if (code > (columns[column] as number)) columns[column] = code;
  });
  const picture = document.createElement("canvas");
  picture.width = TILE;
  picture.height = TILE;
  return { codes: tile.codes, columns, picture, ink: "" };
}

/** The tile's picture in that ink. */
export function inked(tile: KeptTile, ink: Ink): HTMLCanvasElement {
  if (tile.ink === ink.name) return tile.picture;
  const pen = tile.picture.getContext("2d");
  if (!pen) return tile.picture;
  const image = pen.createImageData(TILE, TILE);
  const words = new Uint32Array(image.data.buffer);
  tile.codes.forEach((code, n) => {
    words[n] = ink.words[code] as number;
  });
  pen.putImageData(image, 0, 0);
  tile.ink = ink.name;
  return tile.picture;
}
