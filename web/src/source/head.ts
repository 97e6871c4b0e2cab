import type { HeadFacts, How, RowFacts, Scale, Track } from "./answers";
import { type Cells, isBroken, type Overlay, type OverlayAt, type Tile } from "./binary";
import { type CarriedFacts, type CarriedHead, type CarriedSight, edgesOf, known } from "./carried";
import { numbers, type Part, split } from "./codec";
import { cut, pooled, shrunk, stretched, tileAxis, wholeAxis } from "./pixels";
import { Rows } from "./rows";
import { SourceError } from "./source";

type TileAt = { readonly level: number; readonly y: number; readonly x: number; readonly how: How };
type Span = readonly [start: number, count: number];

/** One head of a self-contained page: all its weights, or a map and some rows. */
export class HeadInFile {
  readonly #all: CarriedFacts;
  readonly #head: CarriedHead;
  readonly #bytes: Map<string, Uint8Array>;
  readonly #sight: CarriedSight | undefined;
  readonly #rows: Rows | null;

  constructor(all: CarriedFacts, head: CarriedHead, content: Uint8Array) {
    this.#all = all;
    this.#head = head;
    this.#bytes = split(content, head.carried.parts);
    this.#sight = head.carried.sight === null ? undefined : all.sights[head.carried.sight];
    const weights = this.#numbers("weights");
    this.#rows = this.#sight && weights ? new Rows(this.#sight, weights) : null;
  }

  facts(): HeadFacts {
    const { carried: _, tracks, ...facts } = this.#head;
    const { scale, caveat } = this.#all.overview;
    const { received, distance, entropy } = tracks;
    const rows = facts.exact ? undefined : this.#sight?.rows;
    return {
      ...facts,
      ...(rows ? { rows } : {}),
      scale,
      caveat,
      tracks: {
        received: received && this.#track("received", received),
        distance: distance && this.#track("distance", distance),
        entropy: entropy && this.#track("entropy", entropy),
      },
    };
  }

  row(row: number, top: number): RowFacts {
    const weights = this.weights(row);
    const keys = heaviest(weights, top);
    return {
      head: this.#head.label,
      prompt: 0,
      row,
      token: this.#token("queries", row),
      visible: this.#carried(row).visible(row),
      keys: [0, weights.length],
      top: keys.map((key) => ({
        key,
        token: this.#token("keys", key),
        weight: weights[key] as number,
      })),
      caveat: this.#all.overview.caveat,
      exact: true,
      why_not: null,
    };
  }

  weights(row: number): Float32Array {
    const keys = this.#head.shape[1];
    const found = new Float32Array(keys);
    this.#carried(row).fill(row, 0, keys, found);
    return found;
  }

  cells(rows: Span, keys: Span): Cells {
    const [start, count] = rows;
    const wide = keys[1];
    const weights = new Float32Array(count * wide).fill(Number.NaN);
    const visible = new Float32Array(count).fill(Number.NaN);
    const [first, stop] = this.#head.recorded;
    for (let n = 0; n < count; n += 1) {
      const row = start + n;
      if (row < first || row >= stop) continue;
      const carried = this.#carried(row);
      visible[n] = carried.visible(row);
      carried.fill(row, keys[0], keys[0] + wide, weights.subarray(n * wide, (n + 1) * wide));
    }
    return { weights, visible };
  }

  /** A row over all keys, or a column over all queries. */
  overlay({ side, position }: OverlayAt): Overlay {
    const [queries, keys] = this.#head.shape;
    const { weights, visible } =
      side === "query"
        ? this.cells([position, 1], [0, keys])
        : this.cells([0, queries], [position, 1]);
    const lengths = (n: number) => visible[side === "query" ? 0 : n] ?? Number.NaN;
    return { weights, times: weights.map((weight, n) => weight * lengths(n)) };
  }

  tile(at: TileAt): Tile {
    const { levels, tile, shape, label } = this.#head;
    if (!levels[at.how].includes(at.level)) {
      const have = levels[at.how].join(", ") || "none";
      const asked = `a map of ${at.level} tokens a pixel (${at.how})`;
      throw new SourceError(`This file has no ${asked.slice(2)} of ${label}; it has ${have}.`, 404);
    }
    const stored = this.#codes(`${at.how}/${at.level}`);
    if (stored) {
      const codes = cut(stored.codes, stored.size, tile, at, this.#scale.hidden);
      return { codes, nan: 0 };
    }
    if (!this.#rows) throw this.#refusal();
    const down = tileAxis(tile, at.level, at.y, shape[0]);
    const across = tileAxis(tile, at.level, at.x, shape[1]);
    return pooled(this.#rows, down, across, at.how, this.#scale);
  }

  /** A square picture of the whole map; null where there is none. */
  picture(side: number): Uint8Array | null {
    const size = this.#head.shape.map((n) => Math.min(n, side)) as [number, number];
    const level = this.#head.levels.mean.at(-1);
    const stored = level ? this.#codes(`mean/${level}`) : null;
    if (stored) {
      const small = stored.size.map((n, axis) => Math.min(n, size[axis] as number));
      const pixels = small as [number, number];
      return stretched(shrunk(stored.codes, stored.size, pixels, this.#scale), pixels, side);
    }
    if (!this.#rows || !this.#head.exact) return null;
    const [down, across] = this.#head.shape.map((n, axis) => wholeAxis(n, size[axis] as number));
    if (!down || !across) return null;
    return stretched(pooled(this.#rows, down, across, "mean", this.#scale).codes, size, side);
  }

  get #scale(): Scale {
    return this.#all.overview.scale;
  }

  #part(name: string): Part | undefined {
    return this.#head.carried.parts.find((one) => one.name === name);
  }

  #numbers(name: string): Float32Array | null {
    const [part, bytes] = [this.#part(name), this.#bytes.get(name)];
    return part && bytes ? numbers(bytes, part) : null;
  }

  #codes(name: string) {
    const [part, codes] = [this.#part(name), this.#bytes.get(name)];
    return part?.form === "codes" && codes ? { codes, size: part.size } : null;
  }

  #track(name: string, told: NonNullable<CarriedHead["tracks"]["received"]>): Track {
    const mean = known(this.#numbers(`${name}/mean`) ?? new Float32Array());
    const largest = this.#numbers(`${name}/largest`);
    return {
      words: told.words,
      edges: edgesOf(told),
      mean,
      largest: largest ? known(largest) : mean,
    };
  }

  #token(side: "queries" | "keys", at: number): string {
    return this.#all.tokens[this.#head.streams[side]]?.tokens[at] ?? "";
  }

  #carried(row: number): Rows {
    const [first, stop] = this.#head.recorded;
    if (row < first || row >= stop) {
      const { label } = this.#head;
      throw new SourceError(`Row ${row} of ${label} was not recorded.`, 404);
    }
    if (!this.#rows?.has(row)) throw this.#refusal();
    return this.#rows;
  }

  #refusal(): SourceError {
    return new SourceError(
      `${this.#head.label}: ${this.#head.why_not ?? "not in this file"}.`,
      409,
    );
  }
}

/** The heaviest keys, heaviest first; of equal ones the lower. */
export function heaviest(weights: Float32Array, count: number): number[] {
  const seen: number[] = [];
  for (let key = 0; key < weights.length; key += 1) {
    if ((weights[key] as number) > 0 && !isBroken(weights[key] as number)) seen.push(key);
  }
  seen.sort((a, b) => (weights[b] as number) - (weights[a] as number) || a - b);
  return seen.slice(0, count);
}
