import { save } from "../../shell/save";

/** Hand a text to the reader as a file. */
export function download(name: string, kind: string, text: string): void {
  save(name, new Blob([text], { type: `${kind};charset=utf-8` }));
}

/** "The cat sat" → "the-cat-sat"; "lesson" where no letter is left. */
export function fileStem(words: readonly string[]): string {
  const stem = words
    .join("-")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "-");
  return stem.replace(/^-+|-+$/g, "").slice(0, 40) || "lesson";
}
