import { amend, place } from "../../shell/address";
import type { HeadShort, Overview, Sight, SightedPlace } from "../../source/answers";
import { type AxisParts, isGrid, partAt, sizeOf, windowOf } from "./layout";
import { DRAWINGS, type Drawing } from "./shades";

// What is looked at, as words in the address: a head, a position, how it is drawn.

export type Side = "queries" | "keys";

export interface Spot {
  readonly side: Side;
  readonly position: number;
}

/** One head and what its positions stand for. */
export interface Scene {
  readonly head: HeadShort;
  readonly place: SightedPlace;
  readonly queries: AxisParts;
  readonly keys: AxisParts;
  /** Whether queries and keys are the same positions. */
  readonly isOne: boolean;
  readonly window: number;
}

export interface Choice {
  readonly spot: Spot;
  readonly isPinned: boolean;
  /** Whether the spot looks, or is looked at. */
  readonly looks: boolean;
  readonly drawing: Drawing;
  readonly isRaw: boolean;
  readonly opacity: number;
  readonly of: "layer" | "layers";
}

export function placeLabel(label: string): string {
  return label.replace(/H\d+$/, "");
}

/** Heads of places that see or hear. */
export function sightedHeads(overview: Overview, sight: Sight): readonly HeadShort[] {
  return overview.heads.filter((one) => sight.places[placeLabel(one.label)]);
}

function hasGrid(sight: Sight, { queries, keys }: SightedPlace): boolean {
  return [queries, keys].some((n) => sight.axes[n]?.some(isGrid));
}

/** The head of the address; else the one that the overview would open; else the first. */
export function sceneOf(overview: Overview, sight: Sight): Scene | null {
  const heads = sightedHeads(overview, sight);
  const grids = heads.filter((one) => {
    const own = sight.places[placeLabel(one.label)];
    return own !== undefined && hasGrid(sight, own);
  });
  const named = (label: string | null | undefined) => heads.find((one) => one.label === label);
  const words = grids.find((one) => isMixed(axesOf(sight, one)));
  const head = named(place.value.head) ?? words ?? named(overview.opens_on) ?? grids[0] ?? heads[0];
  return head ? sceneFor(sight, head) : null;
}

function axesOf(sight: Sight, head: HeadShort): AxisParts {
  return sight.axes[sight.places[placeLabel(head.label)]?.keys ?? 0] ?? [];
}

function isMixed(axis: AxisParts): boolean {
  return axis.some(isGrid) && axis.some((part) => part.kind === "text");
}

export function sceneFor(sight: Sight, head: HeadShort): Scene | null {
  const own = sight.places[placeLabel(head.label)];
  const [queries, keys] = [sight.axes[own?.queries ?? -1], sight.axes[own?.keys ?? -1]];
  if (!own || !queries || !keys) return null;
  const isOne = own.queries === own.keys && head.kind === "self";
  const { window } = windowOf(own, keys.some(isGrid) ? keys : queries, head.head);
  return { head, place: own, queries, keys, isOne, window };
}

/** Where nobody chose: the last word where there are words, else the class token, else the middle. */
export function firstSpot(scene: Scene): Spot {
  const { queries, keys, isOne } = scene;
  if (!isOne) return { side: "queries", position: 0 };
  const total = sizeOf(keys);
  const grid = keys.find(isGrid);
  if (queries.at(-1)?.kind === "text" || !grid) return { side: "queries", position: total - 1 };
  if (grid.grid.prefix.length) return { side: "queries", position: grid.start };
  const { height, width } = grid.grid;
  return { side: "queries", position: (height >> 1) * width + (width >> 1) };
}

/** A word looks at the picture; a patch, where there are words, is looked at by them. */
function looksByItself(scene: Scene, spot: Spot): boolean {
  if (!scene.isOne) return spot.side === "queries";
  const part = partAt(scene.keys, spot.position);
  const isPatch = part !== undefined && isGrid(part);
  return !(isPatch && isMixed(scene.keys));
}

/** Whether all layers are followed together; only where queries and keys are the same positions. */
export function isRollout(scene: Scene): boolean {
  return scene.isOne && place.value.dir === "rollout";
}

/** Whether the spot looks: as was chosen, where both can be. */
export function looksOf(scene: Scene, spot: Spot): boolean {
  const { dir } = place.value;
  if (isRollout(scene)) return true;
  return scene.isOne && dir ? dir === "from" : looksByItself(scene, spot);
}

export function choiceOf(scene: Scene): Choice {
  const { at, side, pin, draw, by, alpha, of } = place.value;
  const asked: Spot = {
    side: side === "keys" && !scene.isOne ? "keys" : "queries",
    position: Number(at ?? Number.NaN),
  };
  const total = sizeOf(scene[asked.side]);
  const isThere = Number.isInteger(asked.position) && asked.position >= 0 && asked.position < total;
  const spot = isThere ? asked : firstSpot(scene);
  return {
    spot,
    isPinned: pin === "1",
    looks: looksOf(scene, spot),
    drawing: DRAWINGS.find((one) => one === draw) ?? "heat",
    isRaw: by === "weight",
    opacity: shareIn(alpha, 0.75),
    of: of === "layers" ? "layers" : "layer",
  };
}

function shareIn(text: string | undefined, otherwise: number): number {
  const share = Number(text ?? Number.NaN) / 100;
  return share >= 0 && share <= 1 ? share : otherwise;
}

export function choose(spot: Spot, isPinned: boolean): void {
  const side = spot.side === "keys" ? "keys" : undefined;
  amend({ at: String(spot.position), side, pin: isPinned ? "1" : undefined });
}

export function chooseHead(label: string, more: Readonly<Record<string, string>> = {}): void {
  amend({ head: label, ...more });
}

/** The heads that stand beside one another: of its module, or of that number in every layer. */
export function neighbours(overview: Overview, sight: Sight, scene: Scene, of: Choice["of"]) {
  const own = placeLabel(scene.head.label);
  const { queries, keys } = scene.place;
  return sightedHeads(overview, sight).filter((one) => {
    const label = placeLabel(one.label);
    const other = sight.places[label];
    if (!other || other.queries !== queries || other.keys !== keys || !one.exact) return false;
    if (of === "layers") return one.stack === scene.head.stack && one.head === scene.head.head;
    return label === own && sceneFor(sight, one)?.window === scene.window;
  });
}
