// What a reader may write into a cell.

export type Read =
  | { readonly is: "number"; readonly value: number }
  | { readonly is: "nothing" }
  | { readonly is: "wrong"; readonly why: string };

const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i;
const LARGEST = 1e9;

/** A decimal number or a fraction; nothing at all asks for the computed number back. */
export function readNumber(text: string): Read {
  const plain = text.trim().replaceAll("−", "-");
  if (plain === "") return { is: "nothing" };
  const parts = plain.split("/").map((part) => part.trim());
  if (parts.length > 2 || !parts.every((part) => DECIMAL.test(part))) return wrong(text);
  const value = parts.length === 2 ? Number(parts[0]) / Number(parts[1]) : Number(parts[0]);
  if (!Number.isFinite(value)) return { is: "wrong", why: "Nothing can be divided by 0." };
  if (Math.abs(value) > LARGEST) {
    return { is: "wrong", why: "Numbers here reach from −10⁹ to 10⁹." };
  }
  return { is: "number", value };
}

function wrong(text: string): Read {
  const shown = text.trim().slice(0, 20);
  const comma = shown.includes(",") ? " Decimals come after a point." : "";
  return { is: "wrong", why: `“${shown}” is not a number.${comma} Write 0.5, −2, 1/3 or 1e-3.` };
}

/** One step up or down: a tenth, without the dust that floating point leaves. */
export function nudged(value: number, direction: 1 | -1): number {
  return Number((value + direction * 0.1).toFixed(10));
}
