/** Said where people look at weights. */
export function Caveat() {
  return (
    <p class="room-caveat" data-part="caveat">
      Attention weights are not by themselves an explanation of what a model answers: they say where
      a head looks. Whether it matters, a knock-out tells.
    </p>
  );
}
