// Numbers as text: at most four decimals, one sign for −∞, a real minus.

export const HIDDEN = "·";
const HUGE = 1e4;

/** Four decimals at most; very large and very small ones in powers of ten. */
export function figure(value: number, places = 4): string {
  if (value === Number.NEGATIVE_INFINITY) return "−∞";
  if (value === Number.POSITIVE_INFINITY) return "∞";
  if (Number.isNaN(value)) return "—";
  const size = Math.abs(value);
  if (size >= HUGE || (size > 0 && size < 0.5 * 10 ** -places && places >= 4)) {
    return powers(value);
  }
  return signed(value.toFixed(places));
}

/** As few decimals as all of them can be told with, 4 at most: [1, 0.5] → 1. */
export function placesOf(values: Iterable<number>, most = 4): number {
  let places = 0;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    while (places < most && Math.abs(value - Number(value.toFixed(places))) > 1e-12) places += 1;
  }
  return places;
}

/** Three digits: 0.42, 12.3, 1.3×10⁻⁵. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return figure(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return powers(value);
  return signed(String(Number(value.toPrecision(3))));
}

/** 1, 2 or 5 times a power of ten, not smaller than the value, which is above 0. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const times = [1, 2, 5, 10].find((n) => n * power >= value * (1 - 1e-9)) ?? 10;
  return times * power;
}

/** With a capital and a full stop: words of whoever answers, where they stand alone. */
export function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

/** 12,345; without Intl, whose first number takes longer than all else that is written. */
export function count(value: number): string {
  return signed(String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ","));
}

/** 3.2 % */
export function percent(share: number): string {
  const points = share * 100;
  return `${points >= 10 || points === 0 ? points.toFixed(0) : points.toPrecision(2)} %`;
}

function powers(value: number): string {
  const [digits, power] = value.toExponential(2).split("e") as [string, string];
  return `${signed(String(Number(digits)))}×10${superscript(Number(power))}`;
}

const RAISED: Readonly<Record<string, string>> = {
  "-": "⁻",
  0: "⁰",
  1: "¹",
  2: "²",
  3: "³",
  4: "⁴",
  5: "⁵",
  6: "⁶",
  7: "⁷",
  8: "⁸",
  9: "⁹",
};

function superscript(value: number): string {
  return [...String(value)].map((digit) => RAISED[digit] ?? digit).join("");
}

/** −1 with a minus, and 0 without one. */
function signed(text: string): string {
  if (!text.startsWith("-")) return text;
  return Number(text) === 0 ? text.slice(1) : `−${text.slice(1)}`;
}
