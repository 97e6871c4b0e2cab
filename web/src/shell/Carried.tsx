import "./carried.css";

/** What a self-contained file holds, and how exactly. */
export function Carried({ words }: { words: readonly string[] }) {
  if (words.length === 0) return null;
  return (
    <p class="carried" data-part="carried">
      {words.join(" ")}
    </p>
  );
}
