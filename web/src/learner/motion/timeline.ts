import { type FilmNumbers, isHidden } from "./numbers";

// The film as moments one after another. Times are whole milliseconds; every frame is a function
// of the lesson's numbers and the time, so that it can be scrubbed, stepped, printed and tested.

export const SCENES = ["meet", "scale", "squeeze", "flow", "heads"] as const;
export type Scene = (typeof SCENES)[number];

export type Kind =
  | "meet.start"
  | "meet.key"
  | "meet.rest"
  | "meet.done"
  | "scale.start"
  | "scale.divide"
  | "scale.mask"
  | "squeeze.start"
  | "squeeze.powers"
  | "squeeze.sum"
  | "squeeze.share"
  | "flow.start"
  | "flow.term"
  | "flow.done"
  | "heads.start"
  | "heads.join"
  | "heads.mix";

/** Something happens, then the picture rests until the moment is over. */
export interface Moment {
  readonly scene: Scene;
  readonly kind: Kind;
  /** Which key, term or head. */
  readonly index: number;
  readonly start: number;
  readonly length: number;
}

const LENGTH: Readonly<Record<Kind, number>> = {
  "meet.start": 1400,
  "meet.key": 2000,
  "meet.rest": 1800,
  "meet.done": 1600,
  "scale.start": 1400,
  "scale.divide": 2600,
  "scale.mask": 2600,
  "squeeze.start": 1400,
  "squeeze.powers": 2600,
  "squeeze.sum": 2000,
  "squeeze.share": 3200,
  "flow.start": 1600,
  "flow.term": 2000,
  "flow.done": 2000,
  "heads.start": 1600,
  "heads.join": 2000,
  "heads.mix": 3000,
};

const NOTHING = 800;

/** Where nothing moves there is nothing to wait for. */
function flowsNothing(kind: Kind, numbers: FilmNumbers, index: number): boolean {
  return kind === "flow.term" && numbers.keys[index]?.weight === 0;
}

/** The moments of the scenes asked for, one after another. */
export function timelineOf(numbers: FilmNumbers, scenes: readonly Scene[]): readonly Moment[] {
  const moments: Moment[] = [];
  let start = 0;
  for (const scene of scenes) {
    for (const [kind, count] of happenings(scene, numbers)) {
      for (let index = 0; index < count; index += 1) {
        const length = flowsNothing(kind, numbers, index) ? NOTHING : LENGTH[kind];
        moments.push({ scene, kind, index, start, length });
        start += length;
      }
    }
  }
  return moments;
}

/** What happens in a scene, and how often. */
function happenings(scene: Scene, numbers: FilmNumbers): readonly (readonly [Kind, number])[] {
  const keys = numbers.keys.length;
  const rest = numbers.rest ? 1 : 0;
  switch (scene) {
    case "meet":
      return [
        ["meet.start", 1],
        ["meet.key", keys],
        ["meet.rest", rest],
        ["meet.done", 1],
      ];
    case "scale":
      return [
        ["scale.start", 1],
        ["scale.divide", 1],
        ["scale.mask", hasMask(numbers) ? 1 : 0],
      ];
    case "squeeze":
      return [
        ["squeeze.start", 1],
        ["squeeze.powers", 1],
        ["squeeze.sum", 1],
        ["squeeze.share", 1],
      ];
    case "flow":
      return [
        ["flow.start", 1],
        ["flow.term", keys + rest],
        ["flow.done", 1],
      ];
    case "heads":
      return [
        ["heads.start", 1],
        ["heads.join", shownHeads(numbers)],
        ["heads.mix", 1],
      ];
  }
}

/** The causal mask, or a −∞ that was set by hand. */
export function hasMask(numbers: FilmNumbers): boolean {
  return numbers.isCausal || numbers.keys.some(isHidden);
}

const MOST_HEADS = 4;

export function shownHeads(numbers: FilmNumbers): number {
  return Math.min(numbers.heads.length, MOST_HEADS);
}

export function lengthOf(moments: readonly Moment[]): number {
  const last = moments.at(-1);
  return last ? last.start + last.length : 0;
}

/** Which moment it is: the last that has begun. */
export function indexAt(moments: readonly Moment[], time: number): number {
  const index = moments.findLastIndex((moment) => moment.start <= time);
  return Math.max(index, 0);
}

/** The time at which a moment has come to rest: its still. */
export function stillOf(moments: readonly Moment[], index: number): number {
  const moment = moments[Math.min(Math.max(index, 0), moments.length - 1)];
  return moment ? moment.start + moment.length - 1 : 0;
}

/** The still after or before; on the way into a moment, forward leads to its own. */
export function stepFrom(moments: readonly Moment[], time: number, direction: 1 | -1): number {
  const index = indexAt(moments, time);
  const isUnderWay = index > 0 && time < stillOf(moments, index);
  return stillOf(moments, direction === 1 && isUnderWay ? index : index + direction);
}

/** How much of a moment is over: 0 … 1. */
export function shareOf(moment: Moment, time: number): number {
  return Math.min(Math.max((time - moment.start) / (moment.length - 1), 0), 1);
}
