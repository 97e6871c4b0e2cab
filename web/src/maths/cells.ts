import type { Matrix } from "./matrix";

// One cell of a hand calculation, read as src/regard/learn/grading/cells.py reads it.

/** NaN where a cell is blank; a unit of 0 is an exact number. */
export interface Printed {
  readonly values: Matrix;
  readonly units: Matrix;
}

// A comma before three digits may separate thousands: 1,000 is no number, 0,125 and 1,25 are.
const POINT = String.raw`(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?`;
export const COMMA = String.raw`(?:0,\d+|\d+,(?:\d{1,2}|\d{4,}))(?:[eE][+-]?\d+)?`;
const PLAIN = String.raw`\d+(?:\.\d+)?`;
const ROOT = `(?:${PLAIN})?√${PLAIN}`;
const TERM = `${ROOT}|${PLAIN}`;
const EXACT = new RegExp(`^([+-]?)(?:(${TERM})/(${TERM})|(${ROOT}))$`);
const NUMBER = new RegExp(`^[+-]?(?:${POINT}|${COMMA})%?$`);
const BLANK = /^[\s?_\-–—.…]*$/;
const VULGAR: Readonly<Record<string, string>> = {
  "½": "1/2",
  "⅓": "1/3",
  "⅔": "2/3",
  "¼": "1/4",
  "¾": "3/4",
  "⅛": "1/8",
};
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

function plainPower(text: string): string {
  const digit = (sign: string) =>
    sign === "⁻" ? "-" : sign === "⁺" ? "+" : String(SUPERSCRIPTS.indexOf(sign));
  return text.replace(/[{} ]/g, "").replace(/[⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹]/g, digit);
}

/** Numbers in one spelling: –.5 is -.5, 4·10⁻² is 4e-2, 1 / 2 is 1/2, 5 % is 5%,
 * 2 / sqrt(3) is 2/√3. */
function tidy(text: string): string {
  return text
    .replaceAll("−", "-")
    .replace(/(?<![\p{L}\p{N}_.,)\]])[–‒﹣－](?=[0-9.,])/gu, "-")
    .replace(/(?<![0-9])[½⅓⅔¼¾⅛]/g, (sign) => VULGAR[sign] as string)
    .replaceAll("⁄", "/")
    .replace(
      /(?<=[0-9]) ?[·×x*] ?10(?:\^(\{ ?[+-]?\d+ ?\}|[+-]?\d+)|([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))/g,
      (_, caret: string | undefined, raised: string | undefined) =>
        `e${plainPower(caret ?? raised ?? "")}`,
    )
    .replace(
      /(?:\bsqrt|√) ?(?:\(([0-9.]+)\)|\{([0-9.]+)\}|([0-9.]+))/g,
      (_, ...inner: (string | undefined)[]) => `√${inner[0] ?? inner[1] ?? inner[2]}`,
    )
    .replace(/(?<=[0-9]) ?\/ ?(?=[0-9√])/g, "/")
    .replace(/(?<=[0-9]) ?%/g, "%")
    .trim();
}

const ABOUT =
  /^(?:[≈~≃≅]|(?:about|approximately|approx|circa|ca|etwa|ungefähr|rund)(?![\p{L}\p{N}_])\.?|大约|大概|约)\s*/iu;

/** What a cell comes to: what stands behind its last = or ≈, without "about" before it. */
function resultOf(text: string): string {
  const last = text.split(/[=≈]/).at(-1)?.trim() || text;
  return last.replace(ABOUT, "").trim() || last;
}

/** The number a cell holds and its unit in the last place (NaN for a whole number). */
export function readCell(text: string): { readonly value: number; readonly unit: number } | null {
  const bare = tidy(resultOf(text.trim()));
  if (BLANK.test(bare)) return { value: Number.NaN, unit: 0 };
  const exact = EXACT.exec(bare);
  if (exact) {
    const [, sign, above, below = "1", root] = exact;
    const found = quotient(above ?? root ?? "", below);
    if (!Number.isFinite(found.value)) return null;
    return { ...found, value: sign === "-" ? -found.value : found.value };
  }
  if (!NUMBER.test(bare)) return null;
  const plain = bare.replace("%", "").replace(",", ".");
  const value = Number(plain) / (bare.endsWith("%") ? 100 : 1);
  return Number.isFinite(value) ? { value, unit: unitOf(plain, bare.endsWith("%")) } : null;
}

/** A value and its unit, which is what the last places of its decimals are worth. */
function quotient(top: string, bottom: string): { value: number; unit: number } {
  const below = termOf(bottom);
  const value = below ? termOf(top) / below : Number.POSITIVE_INFINITY;
  // 4223/10000 is a fraction in form only: its unit is that of 0.4223.
  if (/^10+$/.test(bottom) && !top.includes("√")) return { value, unit: 1 / below };
  const decimals = `${top}/${bottom}`.split(/[√/]/).filter((one) => one.includes("."));
  const shares = decimals.map((one) => 10 ** -(one.split(".")[1]?.length ?? 0) / Number(one));
  return { value, unit: Math.abs(value) * shares.reduce((sum, one) => sum + one, 0) };
}

/** 2, √3 or 2√3. */
function termOf(text: string): number {
  const [factor, root] = text.split("√") as [string, string | undefined];
  return Number(factor || 1) * (root === undefined ? 1 : Math.sqrt(Number(root)));
}

function unitOf(text: string, isPercent: boolean): number {
  const [mantissa, exponent] = text.toLowerCase().split("e") as [string, string | undefined];
  const decimals = mantissa.split(".")[1]?.length ?? 0;
  if (decimals === 0 && exponent === undefined && !isPercent) return Number.NaN;
  const power = Number(exponent ?? 0) - decimals - (isPercent ? 2 : 0);
  return 10 ** Math.min(Math.max(power, -300), 300);
}

export function readCells(texts: readonly (readonly string[])[]): Printed {
  const cells = texts.map((row) => row.map(readCell));
  const values = cells.map((row) => row.map((cell) => cell?.value ?? Number.NaN));
  const units = cells.map((row) => row.map((cell) => cell?.unit ?? 0));
  return { values, units: wholeNumbers(units) };
}

/** A whole number is as fine as the decimals of its row, else of its matrix; else exact. */
function wholeNumbers(units: Matrix): Matrix {
  const finest = (row: readonly number[]) =>
    Math.min(...row.map((unit) => (unit > 0 ? unit : Number.POSITIVE_INFINITY)));
  const ofAll = Math.min(...units.map(finest));
  return units.map((row) => {
    const own = Number.isFinite(finest(row)) ? finest(row) : ofAll;
    return row.map((unit) => (Number.isNaN(unit) ? (Number.isFinite(own) ? own : 0) : unit));
  });
}
