import type { Scale } from "../source/answers";

/** What a code 1 … 255 of a tile stands for; NaN for a hidden cell. */
export function valueOfCode(code: number, scale: Scale): number {
  if (code === scale.hidden) return Number.NaN;
  const part = (code - scale.first) / (scale.last - scale.first);
  if (!scale.log) return scale.low + part * (scale.high - scale.low);
  return scale.low * (scale.high / scale.low) ** part;
}

/** Where a value stands on the scale, 0 … 1; clamped at both ends. */
export function shareOf(value: number, scale: Scale): number {
  const part = scale.log
    ? Math.log(value / scale.low) / Math.log(scale.high / scale.low)
    : (value - scale.low) / (scale.high - scale.low);
  return Number.isNaN(part) ? Number.NaN : Math.min(Math.max(part, 0), 1);
}

/** The palette index of a code: the whole palette is used for 1 … 255. */
export function shareOfCode(code: number, scale: Scale): number {
  return (code - scale.first) / (scale.last - scale.first);
}
