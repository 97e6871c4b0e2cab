/** Which of many equal lines lie inside a box that is scrolled, and a few beyond its edges. */
export function visibleSpan(
  scrolled: number,
  room: number,
  size: number,
  count: number,
): { readonly first: number; readonly last: number } {
  const extra = 2;
  const first = Math.floor(scrolled / size) - extra;
  const last = Math.ceil((scrolled + room) / size) + extra;
  return {
    first: Math.min(Math.max(first, 0), count),
    last: Math.min(Math.max(last, 0), count),
  };
}
