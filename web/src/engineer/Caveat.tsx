import { sentence } from "../maths/format";

/** Said where people look at weights, in the words of whoever answers. */
export function Caveat({ words }: { readonly words: string }) {
  return (
    <p class="room-caveat" data-part="caveat">
      {sentence(words)} Knock a head out to see whether it matters.
    </p>
  );
}
