import type { Vector } from "../../maths/matrix";
import { added, type FilmNumbers } from "./numbers";
import { indexAt, type Moment, type Scene, shareOf, shownHeads } from "./timeline";

// A frame says what is to be seen at a time, not where: shares of ways gone, and how many numbers
// stand already. A number is there or not, never half.

export interface MeetFrame {
  /** Where q is: −1 at its own place, 0 at the first key, 0.5 between the first two. */
  readonly at: number;
  /** How many keys have their products; of the key being met, `products` are there. */
  readonly met: number;
  readonly products: number;
  readonly scores: number;
}

export interface ScaleFrame {
  /** 0 … 1 from score to scaled. */
  readonly shrunk: number;
  readonly isDivided: boolean;
  /** 0 … 1 of the hidden bars' way to nothing. */
  readonly hidden: number;
  readonly isMasked: boolean;
}

export interface SqueezeFrame {
  readonly grown: number;
  readonly hasPowers: boolean;
  readonly hasTotal: boolean;
  /** 0 … 1 from bars of their own to one bar of length 1. */
  readonly squeezed: number;
  readonly hasWeights: boolean;
}

export interface FlowFrame {
  /** Terms that are in the sum; of the next, `flown` of its way. */
  readonly arrived: number;
  readonly flown: number;
  /** The term on its way, or just arrived. */
  readonly current: number | null;
  readonly sum: Vector;
  readonly isDone: boolean;
}

export interface HeadsFrame {
  /** For each head that is drawn, 0 … 1 of its way into concat. */
  readonly slid: Vector;
  /** 0 … 1 of the way through w_o. */
  readonly through: number;
  readonly isMixed: boolean;
}

export interface Frames {
  readonly meet: MeetFrame;
  readonly scale: ScaleFrame;
  readonly squeeze: SqueezeFrame;
  readonly flow: FlowFrame;
  readonly heads: HeadsFrame;
}

export type Frame = {
  [S in Scene]: { readonly scene: S; readonly moment: Moment; readonly of: Frames[S] };
}[Scene];

export function frameAt(numbers: FilmNumbers, moments: readonly Moment[], time: number): Frame {
  const moment = moments[indexAt(moments, time)] as Moment;
  const share = shareOf(moment, time);
  switch (moment.scene) {
    case "meet":
      return { scene: "meet", moment, of: meet(numbers, moment, share) };
    case "scale":
      return { scene: "scale", moment, of: scale(moment, share) };
    case "squeeze":
      return { scene: "squeeze", moment, of: squeeze(moment, share) };
    case "flow":
      return { scene: "flow", moment, of: flow(numbers, moment, share) };
    case "heads":
      return { scene: "heads", moment, of: heads(numbers, moment, share) };
  }
}

/** The last frame of a scene: all its numbers stand. */
export function lastFrame(numbers: FilmNumbers, moments: readonly Moment[], scene: Scene): Frame {
  const last = moments.findLast((moment) => moment.scene === scene) as Moment;
  return frameAt(numbers, moments, last.start + last.length - 1);
}

/** Slow, fast, slow: 0 → 0, 1 → 1; `from` and `to` are where in the moment it happens. */
function way(share: number, from: number, to: number): number {
  const x = Math.min(Math.max((share - from) / (to - from), 0), 1);
  return x * x * (3 - 2 * x);
}

const ARRIVED = 0.7; // of a moment; then the picture rests

function meet(numbers: FilmNumbers, { kind, index }: Moment, share: number): MeetFrame {
  const count = numbers.keys.length;
  if (kind === "meet.start") return { at: -1, met: 0, products: 0, scores: 0 };
  if (kind === "meet.rest")
    return { at: count - 1 + way(share, 0, 0.5), met: count, products: 0, scores: count };
  if (kind === "meet.done") {
    const from = numbers.rest ? count : count - 1; // q goes back to its own place
    const at = from + (-1 - from) * way(share, 0, 0.5);
    return { at, met: count, products: 0, scores: count };
  }
  const width = numbers.query.length;
  const products = Math.floor(Math.min(Math.max((share - 0.35) / 0.35, 0), 1) * width);
  const isMet = share >= ARRIVED;
  return {
    at: index - 1 + way(share, 0, 0.35),
    met: index + (isMet ? 1 : 0),
    products,
    scores: index + (share >= 0.75 ? 1 : 0),
  };
}

function scale({ kind }: Moment, share: number): ScaleFrame {
  const [before, during] = [kind === "scale.start", kind === "scale.divide"];
  return {
    shrunk: before ? 0 : during ? way(share, 0.05, ARRIVED) : 1,
    isDivided: !before && (!during || share >= ARRIVED),
    hidden: kind === "scale.mask" ? way(share, 0.05, ARRIVED) : 0,
    isMasked: kind === "scale.mask" && share >= ARRIVED,
  };
}

function squeeze({ kind }: Moment, share: number): SqueezeFrame {
  const order = ["squeeze.start", "squeeze.powers", "squeeze.sum", "squeeze.share"].indexOf(kind);
  const isOver = (n: number, from: number) => order > n || (order === n && share >= from);
  return {
    grown: order > 1 ? 1 : order === 1 ? way(share, 0.05, ARRIVED) : 0,
    hasPowers: isOver(1, ARRIVED),
    hasTotal: isOver(2, 0.25),
    squeezed: order === 3 ? way(share, 0.05, ARRIVED) : 0,
    hasWeights: isOver(3, ARRIVED),
  };
}

function flow(numbers: FilmNumbers, { kind, index }: Moment, share: number): FlowFrame {
  const terms = numbers.rest ? [...numbers.keys, numbers.rest] : numbers.keys;
  const isThere = share >= ARRIVED;
  const underWay = kind === "flow.term";
  const before = kind === "flow.start" ? 0 : index;
  const arrived = kind === "flow.done" ? terms.length : before + (underWay && isThere ? 1 : 0);
  const isDone = kind === "flow.done";
  return {
    arrived,
    current: underWay ? index : null,
    flown: underWay && !isThere ? way(share, 0.02, ARRIVED) : 0,
    sum: isDone ? numbers.context : added(terms.slice(0, arrived), numbers.context.length),
    isDone,
  };
}

function heads(numbers: FilmNumbers, { kind, index }: Moment, share: number): HeadsFrame {
  const count = shownHeads(numbers);
  const joined = kind === "heads.start" ? 0 : kind === "heads.join" ? index : count;
  const slid = Array.from({ length: count }, (_, h) => {
    if (h < joined) return 1;
    return h === joined && kind === "heads.join" ? way(share, 0.05, ARRIVED) : 0;
  });
  const isMixing = kind === "heads.mix";
  return {
    slid,
    through: isMixing ? way(share, 0.05, ARRIVED) : 0,
    isMixed: isMixing && share >= ARRIVED,
  };
}
