// Tokens as text in which nothing is invisible.

const SEEN: Readonly<Record<string, string>> = { " ": "␣", "\n": "⏎", "\t": "⇥" };
const UNSEEN = /[ \n\t]/g;
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}]/gu;
const LEAST_LENGTH = 2;

/** A code for what has no shape of its own: U+200B. */
function code(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Spaces, line breaks and tabs as signs, other invisible characters by their code. */
export function spelled(token: string): string {
  if (token === "") return "∅";
  return token.replace(UNSEEN, (one) => SEEN[one] ?? one).replace(CONTROL, code);
}

/** As it is, but for the characters that would turn around the text after them. */
export function legible(text: string): string {
  return text.replace(TURNING, code);
}

/** Spelled; nothing where no text is known. */
export function spelledIfKnown(token: string | null | undefined): string {
  return token === null || token === undefined ? "" : spelled(token);
}

/** At most `most` characters, the end cut. */
export function shortened(text: string, most: number): string {
  const characters = [...text];
  if (characters.length <= most) return text;
  return `${characters.slice(0, Math.max(most - 1, LEAST_LENGTH - 1)).join("")}…`;
}
