import type { Ink } from "./inks";
import { inked, type KeptTile } from "./tileStore";
import { type Colouring, TILE, type TileAt, tilesIn } from "./tiling";
import { originOf, type Shape, type Size, type View } from "./view";

// The map on a canvas. Places are rounded to whole pixels of the screen, so that tiles leave no
// seams and every pixel of a tile keeps its colour.

export interface Scene {
  readonly view: View;
  readonly size: Size;
  /** Pixels of the screen per CSS pixel. */
  readonly ratio: number;
  readonly shape: Shape;
  /** First recorded row, and the one after the last. */
  readonly recorded: readonly [number, number];
  readonly levels: readonly number[];
  readonly level: number;
  readonly how: Colouring;
  readonly ink: Ink;
  /** Tokens a pixel of the mean that is drawn below what is not here yet; null where none is. */
  readonly standIn: number | null;
  readonly tileOf: (at: TileAt) => KeptTile | undefined;
}

export interface Inks {
  readonly paper: string;
  readonly hidden: string;
  readonly line: string;
}

/** Token coordinates → pixels of the screen. */
function placing(scene: Scene) {
  const origin = originOf(scene.view, scene.size);
  const scale = scene.view.z * scene.ratio;
  return {
    x: (token: number) => Math.round((token - origin.x) * scale),
    y: (token: number) => Math.round((token - origin.y) * scale),
  };
}

export function paintMap(pen: CanvasRenderingContext2D, scene: Scene, inks: Inks): void {
  const at = placing(scene);
  pen.fillStyle = inks.paper;
  pen.fillRect(0, 0, pen.canvas.width, pen.canvas.height);
  const [first, stop] = scene.recorded;
  const { keys, queries } = scene.shape;
  pen.fillStyle = inks.hidden;
  pen.fillRect(at.x(0), at.y(first), at.x(keys) - at.x(0), at.y(stop) - at.y(first));
  pen.imageSmoothingEnabled = scene.view.z < 1;
  if (scene.standIn !== null) paintLevel(pen, { ...scene, how: "mean" }, scene.standIn);
  for (const level of paintedLevels(scene)) paintLevel(pen, scene, level);
  if (first > 0) hatch(pen, [0, at.y(0), at.x(keys), at.y(first)], inks);
  if (stop < queries) hatch(pen, [0, at.y(stop), at.x(keys), at.y(queries)], inks);
}

/** The level itself; where some of it is missing, coarser ones below it and finer ones above. */
function paintedLevels(scene: Scene): number[] {
  const { view, size, shape, level, how } = scene;
  const isWhole = tilesIn(view, size, shape, level, how).every(scene.tileOf);
  if (isWhole) return [level];
  const coarser = scene.levels.filter((one) => one > level).reverse();
  const finer = scene.levels.filter((one) => one < level && one * 4 >= level).reverse();
  return [...coarser, ...finer, level];
}

function paintLevel(pen: CanvasRenderingContext2D, scene: Scene, level: number): void {
  const { view, size, shape, how } = scene;
  for (const at of tilesIn(view, size, shape, level, how)) {
    const tile = scene.tileOf(at);
    if (tile) paintTile(pen, scene, at, inked(tile, scene.ink));
  }
}

/** What of a tile lies within the matrix and the recorded rows. */
function paintTile(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  tile: TileAt,
  picture: HTMLCanvasElement,
): void {
  const at = placing(scene);
  const side = tile.level * TILE;
  const left = tile.x * side;
  const top = Math.max(tile.y * side, scene.recorded[0]);
  const right = Math.min(left + side, scene.shape.keys);
  const bottom = Math.min((tile.y + 1) * side, scene.recorded[1]);
  if (bottom <= top) return;
  const skipped = (top - tile.y * side) / tile.level;
  pen.drawImage(
    picture,
    0,
    skipped,
    (right - left) / tile.level,
    (bottom - top) / tile.level,
    at.x(left),
    at.y(top),
    at.x(right) - at.x(left),
    at.y(bottom) - at.y(top),
  );
}

const HATCH = 8;

/** Rows of which nothing was recorded. */
function hatch(
  pen: CanvasRenderingContext2D,
  [left, top, right, bottom]: readonly [number, number, number, number],
  inks: Inks,
): void {
  const low = Math.max(top, 0);
  const high = Math.min(bottom, pen.canvas.height);
  const edge = Math.min(right, pen.canvas.width);
  if (high <= low || edge <= left) return;
  pen.save();
  pen.beginPath();
  pen.rect(left, low, edge - left, high - low);
  pen.clip();
  pen.fillStyle = inks.paper;
  pen.fillRect(left, low, edge - left, high - low);
  pen.strokeStyle = inks.line;
  pen.beginPath();
  for (let x = left - (high - low); x < edge; x += HATCH) {
    pen.moveTo(x, high);
    pen.lineTo(x + high - low, low);
  }
  pen.stroke();
  pen.restore();
}

/** Cover the pixels in which a key lies: the sinks, so that the rest is looked at. */
export function coverKeys(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  keys: readonly number[],
  inks: Inks,
): void {
  const at = placing(scene);
  const [first, stop] = scene.recorded;
  pen.fillStyle = inks.hidden;
  for (const key of keys) {
    const left = Math.floor(key / scene.level) * scene.level;
    const right = Math.min(left + scene.level, scene.shape.keys);
    const top = at.y(first);
    pen.fillRect(at.x(left), top, Math.max(at.x(right) - at.x(left), 1), at.y(stop) - top);
  }
}

/** The largest code in view, without the pixels in which those keys lie. */
export function largestCode(scene: Scene, without: readonly number[]): number {
  const skipped = new Set(without.map((key) => Math.floor(key / scene.level)));
  let largest = 0;
  for (const at of tilesIn(scene.view, scene.size, scene.shape, scene.level, scene.how)) {
    scene.tileOf(at)?.columns.forEach((code, column) => {
      if (code > largest && !skipped.has(at.x * TILE + column)) largest = code;
    });
  }
  return largest;
}
