import type { Scale } from "../source/answers";

/** What a code 1 … 255 of a tile stands for; NaN for a hidden cell. */
export function valueOfCode(code: number, scale: Scale): number {
  if (code === scale.hidden) return Number.NaN;
  const part = (code - scale.first) / (scale.last - scale.first);
  if (!scale.log) return scale.low + part * (scale.high - scale.low);
  return scale.low * (scale.high / scale.low) ** part;
}

/** What the last colour stands for. */
export function topOf(scale: Scale): number {
  return scale.top ?? scale.high;
}

/** Which colour a value has, 0 … 1; clamped at both ends. */
export function shareOf(value: number, scale: Scale): number {
  const top = topOf(scale);
  const part = scale.log
    ? Math.log(value / scale.low) / Math.log(top / scale.low)
    : (value - scale.low) / (top - scale.low);
  return Number.isNaN(part) ? Number.NaN : Math.min(Math.max(part, 0), 1);
}
