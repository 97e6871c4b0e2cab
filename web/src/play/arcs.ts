/** Where a word stands in its text, in pixels. */
export interface Spot {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

const RISE = 0.42; // of the distance between two words of a line
const LOWEST = 16;
const HIGHEST = 46;

/** From above one word to above another: an arc within a line, a swing between lines. */
export function pathBetween(from: Spot, to: Spot): string {
  const a = { x: from.x + from.width / 2, y: from.y };
  const b = { x: to.x + to.width / 2, y: to.y };
  if (a.x === b.x && a.y === b.y) {
    return `M ${at(a.x - 4, a.y)} C ${at(a.x - 14, a.y - 20)} ${at(a.x + 14, a.y - 20)} ${at(a.x + 4, a.y)}`;
  }
  if (Math.abs(a.y - b.y) < 2) {
    const high = a.y - Math.min(Math.max(Math.abs(a.x - b.x) * RISE, LOWEST), HIGHEST);
    return `M ${at(a.x, a.y)} C ${at(a.x, high)} ${at(b.x, high)} ${at(b.x, b.y)}`;
  }
  const high = Math.min(a.y, b.y) - LOWEST;
  const low = (a.y + b.y) / 2 - LOWEST;
  return `M ${at(a.x, a.y)} C ${at(a.x, Math.min(low, a.y - LOWEST))} ${at(b.x, high)} ${at(b.x, b.y)}`;
}

function at(x: number, y: number): string {
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}
