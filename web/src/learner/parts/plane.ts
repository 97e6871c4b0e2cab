import { dot, norm, type Vector } from "../../maths/matrix";

// Two vectors of any width lie in one plane: there the first points right, the second at its angle.

export type Point = readonly [x: number, y: number];

export interface Plane {
  readonly first: Point;
  readonly second: Point;
  readonly lengths: readonly [number, number];
  readonly cosine: number;
  readonly degrees: number;
}

/** null where one of them is zero, which has no direction. */
export function planeOf(first: Vector, second: Vector): Plane | null {
  const a = norm(first);
  const b = norm(second);
  if (a === 0 || b === 0) return null;
  const cosine = Math.min(Math.max(dot(first, second) / (a * b), -1), 1);
  const angle = angleBetween(
    first.map((value) => value / a),
    second.map((value) => value / b),
  );
  return {
    first: [a, 0],
    second: [b * cosine, b * Math.sin(angle)],
    lengths: [a, b],
    cosine,
    degrees: (angle * 180) / Math.PI,
  };
}

/** Between two vectors of length 1. Near 0° and 180° the arc cosine would lose half the digits. */
function angleBetween(u: Vector, v: Vector): number {
  const apart = norm(u.map((value, i) => value - (v[i] as number)));
  const together = norm(u.map((value, i) => value + (v[i] as number)));
  return 2 * Math.atan2(apart, together);
}

/** From the plane to the picture: y grows upwards, equal units on both axes. */
export interface Frame {
  readonly unit: number;
  readonly at: (point: Point) => Point;
}

/** A frame that holds all points and the origin inside width × height less the margin. */
export function frameOf(
  points: readonly Point[],
  size: { readonly width: number; readonly height: number; readonly margin: number },
): Frame {
  const xs = [0, ...points.map((point) => point[0])];
  const ys = [0, ...points.map((point) => point[1])];
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const wide = size.width - 2 * size.margin;
  const tall = size.height - 2 * size.margin;
  const unit = Math.min(wide / Math.max(right - left, 1e-9), tall / Math.max(high - low, 1e-9));
  const shiftX = (wide - (right - left) * unit) / 2;
  const shiftY = (tall - (high - low) * unit) / 2;
  const at = ([x, y]: Point): Point => [
    size.margin + shiftX + (x - left) * unit,
    size.height - size.margin - shiftY - (y - low) * unit,
  ];
  return { unit, at };
}
