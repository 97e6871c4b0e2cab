import { COMMA } from "../../maths/cells";
import { type Phrase, phrase } from "../language";

// What a reader may write into a cell.

export type Read =
  | { readonly is: "number"; readonly value: number }
  | { readonly is: "nothing" }
  | { readonly is: "wrong"; readonly why: Phrase };

const POINT = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i;
const WITH_COMMA = new RegExp(`^[+-]?${COMMA}$`); // 1,5, but not 1,000
const LARGEST = 1e9;

/** A decimal number or a fraction; nothing at all asks for the computed number back. */
export function readNumber(text: string): Read {
  const plain = text.trim().replaceAll("−", "-");
  if (plain === "") return { is: "nothing" };
  const parts = plain.split("/").map((part) => part.trim());
  const isRead = parts.every((part) => POINT.test(part) || WITH_COMMA.test(part));
  if (parts.length > 2 || !isRead) return wrong(text);
  const [above = 0, below = 1] = parts.map((part) => Number(part.replace(",", ".")));
  if (below === 0) return { is: "wrong", why: phrase("cell.by_zero") };
  const value = above / below;
  if (!(Math.abs(value) <= LARGEST)) return { is: "wrong", why: phrase("cell.too_large") };
  return { is: "number", value };
}

function wrong(text: string): Read {
  const shown = text.trim().slice(0, 20);
  const name = /^[+−-]?\d+(,\d{3})+$/.test(shown) ? "cell.comma" : "cell.not_number";
  return { is: "wrong", why: phrase(name, { text: shown }) };
}

/** One step up or down: a tenth, without the dust that floating point leaves. */
export function nudged(value: number, direction: 1 | -1): number {
  return Number((value + direction * 0.1).toFixed(10));
}
