/** Said where people look at weights. */
export function Caveat() {
  return (
    <p class="room-caveat" data-part="caveat">
      Attention weights show where a head attends; they do not by themselves explain a model's
      answer. Ablate the head to see whether it matters.
    </p>
  );
}
