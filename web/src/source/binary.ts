// What a source answers in bytes rather than in JSON.

export interface Tile {
  /** 256 × 256 codes, row after row: 0 hidden, 1 … 255 on the scale. */
  readonly codes: Uint8Array;
  /** Cells that are no number. */
  readonly nan: number;
}

/** A weight that may be seen but is no number, since q or k held none: NaN is what is hidden. */
export function isBroken(weight: number): boolean {
  return weight === Number.POSITIVE_INFINITY;
}

export interface Cells {
  /** rows × keys weights, NaN where hidden, ∞ where the weight is no number (`isBroken`). */
  readonly weights: Float32Array;
  /** Keys that each row may see; NaN in rows that were not recorded. */
  readonly visible: Float32Array;
}

/** What one head's small picture is made of. */
export const NO_PICTURE = 0;
export const WHOLE_PICTURE = 1;
/** Of some rows, spread evenly: nothing was stored, and all rows would take too long. */
export const SAMPLED_PICTURE = 2;

/** Small pictures of every head of a stack, in the order of its grid: layer by layer. */
export interface Thumbnails {
  readonly layers: number;
  readonly heads: number;
  /** Pixels a side; queries × keys are stretched to a square. */
  readonly side: number;
  /** One for each head: NO_PICTURE, WHOLE_PICTURE or SAMPLED_PICTURE. */
  readonly kinds: Uint8Array;
  /** side × side codes for each head, as a tile has them: 0 hidden, 1 … 255 on the scale. */
  readonly codes: Uint8Array;
}

/** A row or a column of a head. */
export interface Overlay {
  /** One for each position of the other side: NaN where hidden, ∞ where it is no number. */
  readonly weights: Float32Array;
  /** The same as multiples of what an even row would give. */
  readonly times: Float32Array;
}

/** What a row or a column is asked for by: the query that looks, or the key that is looked at. */
export interface OverlayAt {
  readonly side: "query" | "key";
  readonly position: number;
}
