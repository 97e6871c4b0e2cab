/** Hand a text to the reader as a file. */
export function download(name: string, kind: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: `${kind};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000); // some browsers read it a moment later
}

/** "The cat sat" → "the-cat-sat"; "lesson" where no letter is left. */
export function fileStem(words: readonly string[]): string {
  const stem = words
    .join("-")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "-");
  return stem.replace(/^-+|-+$/g, "").slice(0, 40) || "lesson";
}
