import type { Known, Track } from "../../source/answers";

// A curve along an axis, read at any zoom: each pixel gets the mean and the largest of the tokens
// that lie in it.

export interface Reading {
  readonly mean: number;
  readonly largest: number;
  /** The point's tokens: first, and the one after the last. */
  readonly tokens: readonly [number, number];
}

/** The point whose tokens hold `token`; −1 before the first, the count beyond the last. */
export function pointAt(track: Track, token: number): number {
  const { edges } = track;
  if (token < (edges[0] ?? 0)) return -1;
  let low = 0;
  let high = edges.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((edges[middle + 1] ?? Number.POSITIVE_INFINITY) <= token) low = middle + 1;
    else high = middle;
  }
  return low;
}

function known(value: Known | undefined): number {
  return value ?? Number.NaN;
}

/** The point at a token; null where the track says nothing. */
export function readingAt(track: Track, token: number): Reading | null {
  const n = pointAt(track, token);
  if (n < 0 || n >= track.mean.length) return null;
  const tokens = [track.edges[n] ?? 0, track.edges[n + 1] ?? 0] as const;
  return { mean: known(track.mean[n]), largest: known(track.largest[n]), tokens };
}

/** Mean and largest of the points from token `start` up to `stop`; null where there is none. */
export function readingOf(track: Track, start: number, stop: number): Reading | null {
  const first = Math.max(pointAt(track, start), 0);
  let [sum, total, largest, n] = [0, 0, Number.NaN, first];
  for (; n < track.mean.length && (track.edges[n] ?? 0) < stop; n += 1) {
    const [mean, top] = [known(track.mean[n]), known(track.largest[n])];
    const left = Math.max(track.edges[n] ?? 0, start);
    const right = Math.min(track.edges[n + 1] ?? 0, stop);
    if (right <= left) continue;
    if (!Number.isNaN(mean)) {
      sum += mean * (right - left);
      total += right - left;
    }
    if (!(top <= largest)) largest = top;
  }
  if (total === 0) return null;
  return { mean: sum / total, largest, tokens: [start, stop] };
}

/** The heights 0 … 1 that values have on a chart. */
export interface Height {
  readonly low: number;
  readonly high: number;
  readonly log: boolean;
}

export function heightOf(value: number, height: Height): number {
  const part = height.log
    ? Math.log(Math.max(value, height.low) / height.low) / Math.log(height.high / height.low)
    : (value - height.low) / (height.high - height.low || 1);
  return Math.min(Math.max(part, 0), 1);
}

const DECADES = 1e-7;
const LOW_PART = 0.05;
const SPIKE = 30;

/** From 0, or along a log scale from where nearly all are above, to the largest of those kept. */
export function heights(track: Track, log: boolean, keeps: (token: number) => boolean): Height {
  let high = 0;
  const means: number[] = [];
  track.largest.forEach((value, n) => {
    if (value === null || !keeps(track.edges[n] ?? 0)) return;
    high = Math.max(high, value);
    const mean = track.mean[n] ?? 0;
    if (mean > 0) means.push(mean);
  });
  if (high <= 0) return { low: 0, high: 1, log: false };
  if (!log) return { low: 0, high, log };
  const few = means.sort((a, b) => a - b)[Math.floor(means.length * LOW_PART)] ?? high;
  return { low: Math.min(Math.max(few / 2, high * DECADES), high / 2), high, log };
}

/** Whether one point dwarfs the others, so that a log scale shows more. */
export function isSpiky(track: Track): boolean {
  const values = track.mean.filter((value): value is number => value !== null && value > 0);
  if (values.length < 3) return false;
  const middle = values.toSorted((a, b) => a - b)[values.length >> 1] as number;
  return track.largest.some((value) => (value ?? 0) > SPIKE * middle);
}

/** The points with the largest values, for the table beside the picture. */
export function largestPoints(track: Track, most: number): Reading[] {
  const order = track.largest
    .map((value, n) => [value ?? Number.NEGATIVE_INFINITY, n] as const)
    .toSorted((a, b) => b[0] - a[0]);
  return order.slice(0, most).flatMap(([, n]) => readingAt(track, track.edges[n] ?? 0) ?? []);
}

const SINK_SHARE = 0.3;

/**
 * Keys that got over 0.3 of the rows that see them; of a track that is pooled over several keys
 * only key 0 can be told.
 */
export function sinkKeys(track: Track | null, rows: readonly [number, number], isCausal: boolean) {
  const found = new Set([0]);
  track?.mean.forEach((value, n) => {
    const key = track.edges[n] ?? 0;
    if ((track.edges[n + 1] ?? 0) - key !== 1 || value === null) return;
    const seers = isCausal ? rows[1] - Math.max(rows[0], key) : rows[1] - rows[0];
    if (seers > 16 && value / seers > SINK_SHARE) found.add(key);
  });
  return [...found];
}
