// Words of a sentence and their labels, as in src/regard/learn/text.py and lesson/sentence.py.

const BLANKS = /[\s\p{Cc}]+/u;
const LONGEST = 12; // cells of a label
const WIDE =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]/u;
const NONE = /\p{Mn}|\u200b|\u200d|\ufe0f/u;

/** What stands between blanks. */
export function tokensOf(sentence: string): string[] {
  return sentence.split(BLANKS).filter((word) => word);
}

/** One label per token; the second "the" is "the₂". */
export function labelsOf(tokens: readonly string[]): string[] {
  const again = new Map<string, number>();
  const labels = new Set<string>();
  for (const token of tokens) {
    const plain = short(printable(token));
    let label = plain;
    while (labels.has(label)) {
      const count = (again.get(plain) ?? 0) + 1;
      again.set(plain, count);
      label = plain + subscript(count + 1);
    }
    labels.add(label);
  }
  return [...labels];
}

/** Without characters that could steer what shows them. */
export function printable(text: string): string {
  return text.replace(/(?!\u200d)[\p{C}\p{Z}]/gu, "\ufffd");
}

/** At most 12 cells, the cut marked. */
function short(text: string): string {
  const letters = [...text];
  if (cellsOf(letters) <= LONGEST) return text;
  let kept = 0;
  while (cellsOf(letters.slice(0, kept + 1)) < LONGEST) kept += 1;
  return `${letters.slice(0, kept).join("")}…`;
}

function cellsOf(letters: readonly string[]): number {
  return letters.reduce((sum, one) => sum + (NONE.test(one) ? 0 : WIDE.test(one) ? 2 : 1), 0);
}

function subscript(number: number): string {
  return String(number).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)] as string);
}
