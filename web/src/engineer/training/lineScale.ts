import type { Limit, Scale } from "../../source/answers";
import type { Reading } from "./reading";
import { endsOf } from "./stripScale";

/** From where to where a line is drawn: what the head does, and its limit where it was over it. */
export function lineScale(series: readonly Reading[], limit: Limit | null, colours: Scale): Scale {
  const known = endsOf(
    series.flatMap((one) => [one.least, one.largest]),
    colours.log,
  );
  if (!known) return colours;
  const isNear = limit !== null && isOver(known, limit);
  let low = isNear ? Math.min(known.low, limit.value) : known.low;
  let high = isNear ? Math.max(known.high, limit.value) : known.high;
  if (low === high) [low, high] = colours.log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  return { ...colours, low, high };
}

function isOver(known: { readonly low: number; readonly high: number }, limit: Limit): boolean {
  return limit.side === "above" ? known.high >= limit.value / 2 : known.low <= limit.value * 2;
}
