/** The word of another prompt that stands where this one does: counted from the front as far as
 * both begin alike, else from the end; null where neither says. */
export function counterpart(
  own: readonly string[],
  other: readonly string[],
  word: number,
): number | null {
  let front = 0;
  while (front < own.length && front < other.length && own[front] === other[front]) front += 1;
  if (word < front) return word;
  let back = 0;
  const most = Math.min(own.length, other.length) - front;
  while (back < most && own[own.length - 1 - back] === other[other.length - 1 - back]) back += 1;
  const fromEnd = own.length - 1 - word;
  if (fromEnd < back) return other.length - 1 - fromEnd;
  // the words between, which differ: one for one where there are as many
  return own.length === other.length ? word : null;
}
