import type { Scale, TrainedStatistic } from "../../source/answers";
import type { Strips } from "../../source/training";
import { statisticName } from "../overview/statistics";

const CODES = { hidden: 0, first: 1, last: 255 } as const;
const MOST_DECADES = 4; // below them all is one colour
const FAR_BEYOND = 20; // times the mean: on a linear scale everything else would be one colour

interface Ends {
  readonly low: number;
  readonly high: number;
}

/** The smallest and the largest number that is finite; and above 0, where asked for. */
export function endsOf(values: Iterable<number>, isPositive = false): Ends | null {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (!Number.isFinite(value) || (isPositive && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return high < low ? null : { low, high };
}

/** From where to where a strip is coloured. */
export function stripScale(strips: Strips, facts: TrainedStatistic): Scale {
  const name = statisticName(strips.statistic);
  const ends = facts.span === "one" ? null : endsOf(strips.mean);
  if (ends && (facts.span === "decades" || ends.high > FAR_BEYOND * meanSize(strips.mean))) {
    return { name, ...decades(strips.mean), log: true, ...CODES };
  }
  const { low, high } = ends ?? { low: 0, high: 1 };
  return { name, low, high: high > low ? high : low + 1, log: false, ...CODES };
}

/** The mean of all magnitudes. */
function meanSize(values: Float32Array): number {
  let sum = 0;
  let known = 0;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    sum += Math.abs(value);
    known += 1;
  }
  return sum / Math.max(known, 1);
}

/** Whole powers of ten, one at least. */
function decades(values: Float32Array): Ends {
  const ends = endsOf(values, true);
  if (!ends) return { low: 0.1, high: 1 };
  const high = Math.ceil(Math.log10(ends.high));
  const low = Math.max(Math.floor(Math.log10(ends.low)), high - MOST_DECADES);
  return { low: 10 ** Math.min(low, high - 1), high: 10 ** high };
}
