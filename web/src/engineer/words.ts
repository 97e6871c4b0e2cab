import { PAGE, type TokenBook } from "./head/tokenBook";

// Words of the text, as tokens: a word may be several of them, and a token a part of one.

/** Stands on tokens whose characters began on the token before; see recording/token_text.py. */
export const CONTINUED = "⋯";

/** Where the words begin: tokens, ascending. Upper and lower case are the same. */
export function tokensWith(texts: readonly (string | null)[], words: string): readonly number[] {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  const owners: number[] = [];
  let whole = "";
  texts.forEach((text, n) => {
    const own = text === null || text === CONTINUED ? "" : text.toLowerCase();
    whole += own;
    for (let at = 0; at < own.length; at += 1) owners.push(n);
  });
  const found: number[] = [];
  for (let at = whole.indexOf(wanted); at >= 0; at = whole.indexOf(wanted, at + 1)) {
    const owner = owners[at] as number;
    if (found.at(-1) !== owner) found.push(owner);
  }
  return found;
}

/** All texts of a stream, page by page. */
export async function textsOf(book: TokenBook, total: number): Promise<readonly (string | null)[]> {
  const pages = Array.from({ length: Math.ceil(total / PAGE) }, (_, page) => page * PAGE);
  for (const start of pages) await book.ready(start);
  return Array.from({ length: total }, (_, n) => book.text(n) ?? null);
}

/** A whole number in that range; null for any other text. */
export function numberIn(text: string, least: number, most: number): number | null {
  const value = Number(text.trim());
  const isWhole = /^\d+$/.test(text.trim()) && value >= least && value <= most;
  return isWhole ? value : null;
}

/** The first of some ascending numbers that is larger; else, once around, the first. */
export function nextAfter(numbers: readonly number[], n: number): number | undefined {
  return numbers.find((one) => one > n) ?? numbers[0];
}
