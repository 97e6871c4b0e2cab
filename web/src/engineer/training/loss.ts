import type { Scale } from "../../source/answers";
import type { Strips } from "../../source/training";
import type { Reading } from "./reading";
import { readingAt } from "./reading";
import { endsOf } from "./stripScale";

// The loss comes as a strip of two cells: the number where it is finite, and whether it is not.

export const LOSS = "loss";
const NUMBER = 0;
const BROKEN = 1;
const FAR_BEYOND = 20; // times the least: on a linear scale the end would be flat

export interface LossReading extends Reading {
  /** The loss of a step of the bin is NaN or infinite. */
  readonly isBroken: boolean;
}

export function lossAt(strips: Strips, bin: number): LossReading {
  const isBroken = readingAt(strips, BROKEN, bin).largest > 0;
  return { ...readingAt(strips, NUMBER, bin), isBroken };
}

export function lossSeries(strips: Strips): readonly LossReading[] {
  return Array.from(strips.first, (_, bin) => lossAt(strips, bin));
}

/** From where to where the loss is drawn. */
export function lossScale(series: readonly LossReading[]): Scale {
  const ends = endsOf(series.flatMap((one) => [one.least, one.largest])) ?? { low: 0, high: 1 };
  const log = ends.low > 0 && ends.high > FAR_BEYOND * ends.low;
  const [low, high] =
    ends.low < ends.high ? [ends.low, ends.high] : [ends.low - 0.5, ends.high + 0.5];
  return { name: LOSS, low, high, log, hidden: 0, first: 1, last: 255 };
}

/** Bins that follow each other and hold a loss that is not finite. */
export function brokenRuns(series: readonly LossReading[]) {
  const found: { first: number; last: number }[] = [];
  series.forEach((one, bin) => {
    if (!one.isBroken) return;
    const before = found.at(-1);
    if (before?.last === bin - 1) before.last = bin;
    else found.push({ first: bin, last: bin });
  });
  return found;
}
