import { count, roundUp } from "../../maths/format";
import { shortened, spelledIfKnown } from "./spelling";

// What stands along an axis: every token's text where there is room, else round numbers.

export const TOKEN_ROOM = 12;
const TICK_ROOM = 64;

export interface Mark {
  /** CSS pixels along the axis: the middle of the token. */
  readonly at: number;
  readonly text: string;
}

export interface AxisSpan {
  /** Token coordinate at the axis' start. */
  readonly origin: number;
  /** CSS pixels per token. */
  readonly z: number;
  /** CSS pixels. */
  readonly length: number;
  /** How many tokens there are. */
  readonly total: number;
}

/** 1, 2, 5, 10, 20 … : the first that is not smaller. */
export function roundStep(least: number): number {
  return roundUp(Math.max(least, 1));
}

/** The tokens that are at least partly on the axis: first, and the one after the last. */
export function tokensOn(span: AxisSpan): readonly [number, number] {
  const first = Math.max(Math.floor(span.origin), 0);
  const stop = Math.min(Math.ceil(span.origin + span.length / span.z), span.total);
  return [first, Math.max(first, stop)];
}

export function tickMarks(span: AxisSpan, room = TICK_ROOM): Mark[] {
  const step = roundStep(room / span.z);
  const [first, stop] = tokensOn(span);
  const marks: Mark[] = [];
  for (let n = Math.ceil(first / step) * step; n < stop; n += step) {
    marks.push({ at: (n + 0.5 - span.origin) * span.z, text: count(n) });
  }
  return marks;
}

/** Each token on the axis; one whose text is not known yet shows its number. */
export function tokenMarks(
  span: AxisSpan,
  textOf: (n: number) => string | null | undefined,
  most: number,
): Mark[] {
  const [first, stop] = tokensOn(span);
  return Array.from({ length: stop - first }, (_, at) => {
    const n = first + at;
    const text = textOf(n);
    const shown = shortened(spelledIfKnown(text) || String(n), most);
    return { at: (n + 0.5 - span.origin) * span.z, text: shown };
  });
}
