import { randomProjections, type Sizes } from "./draws";
import type { Projections } from "./lesson";
import { beside } from "./lesson";
import type { Matrix } from "./matrix";

// The projections a sentence can be given on the page, as in src/regard/learn/lesson:
// projections.py and by_hand.py.

export interface Heads {
  readonly heads: readonly Projections[];
  readonly w_o: Matrix | null;
}

function zeros(rows: number, columns: number): number[][] {
  return Array.from({ length: rows }, () => new Array<number>(columns).fill(0));
}

/** (width, d): each column passes one dimension through, as strongly as is said. */
function picks(
  width: number,
  dimensions: readonly number[],
  strengths: readonly number[] = [],
): number[][] {
  const picked = zeros(width, dimensions.length);
  dimensions.forEach((dimension, column) => {
    (picked[dimension % width] as number[])[column] = strengths[column] ?? 1;
  });
  return picked;
}

/** Each head passes its own share through; the second half ask one dimension further. */
export function identityHeads(width: number, count: number): Heads & { readonly w_o: Matrix } {
  const share = width / count;
  const heads = Array.from({ length: count }, (_, h) => {
    const own = Array.from({ length: share }, (_, c) => h * share + c);
    const shift = count > 1 && 2 * h >= count ? 1 : 0;
    const asks = own.map((dimension) => dimension + shift);
    return { w_q: picks(width, asks), w_k: picks(width, own), w_v: picks(width, own) };
  });
  return {
    heads,
    w_o: picks(
      width,
      Array.from({ length: width }, (_, n) => n),
    ),
  };
}

const GAIN = 2;
const BACK = 1; // who does something asks for the action half as strongly
const TOPIC = ["animal", "place", "water", "money"];
const ASKS = ["action", "action", "person", "animal"];
const STRENGTHS = [GAIN, GAIN, BACK, BACK];
const FOUND_BY = ["person", "animal", "action", "action"];
const GIVES = ["person", "animal", "action", "past"];

/** Head 1: words of one topic find each other. Head 2: an action finds its doer, who
 * looks back less. */
export function headsByHand(features: readonly string[]): Heads & { readonly w_o: Matrix } {
  const pick = (names: readonly string[], strengths: readonly number[] = []) =>
    picks(
      features.length,
      names.map((name) => features.indexOf(name)),
      strengths,
    );
  const heads = [
    {
      w_q: pick(
        TOPIC,
        TOPIC.map(() => GAIN),
      ),
      w_k: pick(TOPIC),
      w_v: pick(TOPIC),
    },
    { w_q: pick(ASKS, STRENGTHS), w_k: pick(FOUND_BY), w_v: pick(GIVES) },
  ];
  const back = [...TOPIC, ...GIVES].map((name) => features.map((one) => Number(one === name)));
  return { heads, w_o: back };
}

export function randomHeads(width: number, seed: number): Heads & { readonly w_o: Matrix } {
  const sizes: Sizes = { width, heads: 2, d_k: width / 2, d_v: width / 2 };
  return randomProjections(sizes, seed);
}

/** The same columns in `count` heads. */
export function cut(heads: readonly Projections[], count: number): Projections[] {
  const whole = (name: keyof Projections) => beside(heads.map((head) => head[name]));
  const [w_q, w_k, w_v] = [whole("w_q"), whole("w_k"), whole("w_v")];
  const share = (w_q[0]?.length ?? 0) / count;
  return Array.from({ length: count }, (_, h) => {
    const part = (matrix: Matrix) => matrix.map((row) => row.slice(h * share, (h + 1) * share));
    return { w_q: part(w_q), w_k: part(w_k), w_v: part(w_v) };
  });
}
