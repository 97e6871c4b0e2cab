// Tokens as a reader sees them: text only, never markup.

const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A word of the prompt as it stands there; a line break can be seen, and is one. */
export function wordText(token: string): string {
  const text = token.replace(TURNING, "").replaceAll("\n", "⏎\n");
  return text === "" ? "∅" : text;
}

/** A token alone, at its place in the text where that is known: what goes on with the word before
 * it begins with dots, and spaces alone can be seen. */
export function tokenText(token: string, at = 1): string {
  const text = token.replace(TURNING, "").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
  if (text.trim() === "") return text.replaceAll(" ", "␣") || "∅";
  if (text.startsWith(" ")) return text.slice(1);
  return at > 0 && /^\p{L}/u.test(text) ? `…${text}` : text;
}

/** In a sentence. */
export function quoted(token: string | undefined): string {
  const text = (token ?? "").replace(TURNING, "").trim();
  return `“${text === "" ? tokenText(token ?? "") : text}”`;
}

/** Whether it is a sign of the tokenizer and no text. */
export function isSpecial(token: string): boolean {
  return /^ ?(<\|[^|]*\|>|\[[A-Z]+\]|<\/?s>)$/.test(token);
}
