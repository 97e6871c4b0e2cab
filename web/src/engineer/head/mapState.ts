import { computed, effect, type Signal, signal } from "@preact/signals";
import { amend, type Place, place } from "../../shell/address";
import type { HeadFacts, How } from "../../source/answers";
import { type Colouring, chooseLevel, fitsInOne } from "./tiling";
import { sinkKeys } from "./trackMaths";
import {
  type Bounds,
  bounded,
  type Cell,
  mostZoom,
  type Shape,
  type Size,
  type View,
  wholeView,
  withCell,
  zoomed,
} from "./view";

// What the reader chose on a head's map. All of it is in the address, so a link shows the same.

const WORDS = ["x", "y", "z", "how", "colour", "ink", "sinks", "at"] as const;
const PATIENCE = 250; // ms without a change, before the address follows
export const QUICK_LEVEL = 8; // tokens a pixel that are computed at once

export type Point = { readonly x: number; readonly y: number };

export class MapState {
  readonly facts: HeadFacts;
  readonly shape: Shape;
  readonly size = signal<Size>({ width: 0, height: 0 });
  readonly ratio = signal(globalThis.devicePixelRatio || 1);
  /** null until the size of the screen is known, or for the whole. */
  readonly chosen: Signal<View | null>;
  readonly how: Signal<How>;
  readonly raw: Signal<boolean>;
  readonly linear: Signal<boolean>;
  readonly withSinks: Signal<boolean>;
  readonly cursor: Signal<Cell | null>;
  readonly pointer = signal<Cell | null>(null);
  readonly sinks: readonly number[];
  #written = "";

  constructor(facts: HeadFacts, words: Place) {
    this.facts = facts;
    this.shape = { queries: facts.shape[0], keys: facts.shape[1] };
    const isCausal = (facts.tracks.distance?.edges[0] ?? 0) >= 0 && facts.kind === "self";
    this.sinks = sinkKeys(facts.tracks.received ?? null, facts.recorded, isCausal);
    this.chosen = signal(null);
    this.how = signal("mean");
    this.raw = signal(false);
    this.linear = signal(false);
    this.withSinks = signal(true);
    this.cursor = signal(null);
    this.#read(words);
  }

  readonly bounds = computed<Bounds>(() => {
    const finest = this.facts.levels[this.how.value][0] ?? 1;
    return { shape: this.shape, most: mostZoom(this.facts.exact, finest) };
  });

  readonly view = computed<View>(() => {
    const size = this.size.value;
    const chosen = this.chosen.value ?? this.#start(size);
    return bounded(chosen, size, this.bounds.value);
  });

  /** Tokens a pixel of the tiles that show the view; null where nothing can be drawn. */
  readonly level = computed(() => {
    const pixels = this.view.value.z * this.ratio.value;
    return this.isRaw.value ? 1 : chooseLevel(this.facts.levels[this.how.value], pixels);
  });

  /** Raw weights are coloured only where each token has a pixel. */
  readonly isRaw = computed(() => this.raw.value && this.facts.exact && this.view.value.z >= 1);

  readonly colouring = computed<Colouring>(() => (this.isRaw.value ? "raw" : this.how.value));

  /** The cell that is read out. */
  readonly looked = computed(() => this.pointer.value ?? this.cursor.value);

  /** The level that shows everything in one tile, if there is one. */
  readonly overview = computed(() => {
    const coarsest = this.facts.levels.mean.at(-1);
    return coarsest !== undefined && fitsInOne(coarsest, this.shape) ? coarsest : null;
  });

  zoom(factor: number, at?: Point): void {
    const size = this.size.peek();
    const middle = at ?? { x: size.width / 2, y: size.height / 2 };
    this.chosen.value = zoomed(this.view.peek(), size, this.bounds.peek(), factor, middle);
  }

  show(view: View): void {
    this.chosen.value = bounded(view, this.size.peek(), this.bounds.peek());
  }

  showWhole(): void {
    this.chosen.value = wholeView(this.shape, this.size.peek());
  }

  /** Put the cursor on a cell and bring it into view, as large as `z` at least. */
  goTo(cell: Cell, z = 0): void {
    const row = Math.min(Math.max(cell.row, 0), this.shape.queries - 1);
    const key = Math.min(Math.max(cell.key, 0), this.shape.keys - 1);
    this.cursor.value = { row, key };
    this.pointer.value = null;
    const view = this.view.peek();
    const near = z > view.z ? { x: key + 0.5, y: row + 0.5, z } : view;
    this.chosen.value = withCell(near, this.size.peek(), this.bounds.peek(), { row, key });
  }

  /** What the address says of the map, for links to other heads too. */
  words(): Record<(typeof WORDS)[number], string | undefined> {
    const view = this.chosen.value && this.view.value;
    const cursor = this.cursor.value;
    return {
      x: view ? view.x.toFixed(2) : undefined,
      y: view ? view.y.toFixed(2) : undefined,
      z: view ? String(Number(view.z.toPrecision(5))) : undefined,
      how: this.how.value === "max" ? "max" : undefined,
      colour: this.raw.value ? "weight" : undefined,
      ink: this.linear.value ? "linear" : undefined,
      sinks: this.withSinks.value ? undefined : "hidden",
      at: cursor ? `${cursor.row},${cursor.key}` : undefined,
    };
  }

  /** Keep the address and this equal, in both directions, until the answer is called. */
  follow(): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const leave = effect(() => {
      const words = this.words();
      if (this.size.value.width === 0 || spelledOut(words) === this.#written) return;
      clearTimeout(timer);
      timer = setTimeout(() => {
        this.#written = spelledOut(words);
        amend(words);
      }, PATIENCE);
    });
    const turn = effect(() => {
      const words = place.value;
      if (words.head === this.facts.label && spelledOut(words) !== this.#written) this.#read(words);
    });
    return () => {
      clearTimeout(timer);
      leave();
      turn();
    };
  }

  #read(words: Place): void {
    this.#written = spelledOut(words);
    const [x, y, z] = [words.x, words.y, words.z].map(Number) as [number, number, number];
    this.chosen.value = [x, y].every(Number.isFinite) && z > 0 ? { x, y, z } : null;
    this.how.value = words.how === "max" ? "max" : "mean";
    this.raw.value = words.colour === "weight";
    this.linear.value = words.ink === "linear";
    this.withSinks.value = words.sinks !== "hidden";
    const [row, key] = (words.at ?? "").split(",").map(Number);
    const isCell = Number.isInteger(row) && Number.isInteger(key) && words.at !== "";
    this.cursor.value = isCell ? this.#within({ row: row ?? 0, key: key ?? 0 }) : null;
  }

  #within(cell: Cell): Cell | null {
    const isThere = cell.row >= 0 && cell.key >= 0;
    return isThere && cell.row < this.shape.queries && cell.key < this.shape.keys ? cell : null;
  }

  /** All of it; or the start of the text, where all of it would be computed for many seconds. */
  #start(size: Size): View {
    const levels = this.facts.levels.mean;
    if (this.overview.value !== null || !levels.length) return wholeView(this.shape, size);
    const z = 1 / QUICK_LEVEL / this.ratio.value;
    return { x: 0, y: this.facts.recorded[0], z };
  }
}

function spelledOut(words: Readonly<Record<string, string | undefined>>): string {
  return JSON.stringify(WORDS.map((name) => words[name] ?? null));
}
