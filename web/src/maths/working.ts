import {
  type Band,
  exactly,
  type Rounding,
  rounded,
  scaledBand,
  softmaxBand,
  softmaxOfRounded,
  timesBand,
  turned,
} from "./bands";
import type { Printed } from "./cells";
import { type Matrix, map } from "./matrix";

// The steps recomputed from each other, also by ways that were not written: whoever leaves a step
// out may have rounded it before going on. As src/regard/learn/grading/working.py.

export const ANSWERS = ["Q", "K", "V", "scores", "scaled", "weights", "output"] as const;
export type Answer = (typeof ANSWERS)[number];

export interface Task {
  readonly x: Matrix;
  readonly w_q: Matrix;
  readonly w_k: Matrix;
  readonly w_v: Matrix;
}

type Cells = readonly (readonly boolean[])[];

const DECIMALS: readonly number[] = [2, 3, 4]; // what a hidden step may have been rounded to
const MOST = 500; // ways kept apart; more become one band that holds them all
const SOURCES: Readonly<Record<Answer, readonly Answer[]>> = {
  Q: [],
  K: [],
  V: [],
  scores: ["Q", "K"],
  scaled: ["scores"],
  weights: ["scaled"],
  output: ["weights", "V"],
};

export class Working {
  readonly #known = new Map<Answer, Band>();
  readonly #given = new Map<Answer, Cells>();
  readonly #unrounded = new Map<Answer, Band>();
  readonly #ways = new Map<Answer, readonly Band[]>();
  readonly #roundings: readonly Rounding[];
  readonly #task: Task;

  constructor(task: Task, printed: readonly Printed[]) {
    this.#task = task;
    const all = [...new Set([...DECIMALS, ...printed.flatMap(decimalsOf)])].sort((a, b) => a - b);
    this.#roundings = all.flatMap((decimals) => [
      { decimals, cut: false },
      { decimals, cut: true },
    ]);
  }

  /** What a written step is further on; `given` are the cells that were filled in. */
  keep(answer: Answer, band: Band, given: Cells, units: Matrix): void {
    this.#known.set(answer, band);
    this.#given.set(answer, given);
    const shifted = (sign: number) =>
      map(band.value, (value, r, c) => value + sign * (units[r]?.[c] as number));
    const loose = { value: band.value, low: shifted(-1), high: shifted(1) };
    this.#unrounded.set(answer, where(given, loose, band));
  }

  recompute(answer: Answer): Band {
    return this.#apply(
      answer,
      SOURCES[answer].map((name) => this.#known.get(name) as Band),
    );
  }

  /** The step by every way of rounding what leads to it and was not written. */
  *waysTo(answer: Answer, withExponentials = true): Generator<Band> {
    for (const sources of product(SOURCES[answer].map((name) => this.#waysOf(name)))) {
      yield this.#apply(answer, sources);
      if (answer !== "weights" || !withExponentials) continue;
      for (const how of this.#roundings) yield softmaxOfRounded(sources[0] as Band, how);
    }
  }

  #apply(answer: Answer, sources: readonly Band[]): Band {
    const [first, second] = sources as [Band, Band];
    if (answer === "scores") return timesBand(first, turned(second));
    if (answer === "scaled") {
      return scaledBand(first, 1 / Math.sqrt(this.#task.w_k[0]?.length ?? 1));
    }
    if (answer === "weights") return softmaxBand(first);
    if (answer === "output") return timesBand(first, second);
    const projection = { Q: this.#task.w_q, K: this.#task.w_k, V: this.#task.w_v }[answer];
    return timesBand(exactly(this.#task.x), exactly(projection));
  }

  /** What the next step may have gone on with; only cells that were not given vary. */
  #waysOf(answer: Answer): readonly Band[] {
    const found = this.#ways.get(answer) ?? this.#allWaysOf(answer);
    this.#ways.set(answer, found);
    return found;
  }

  #allWaysOf(answer: Answer): readonly Band[] {
    const band = this.#known.get(answer) as Band;
    if (!this.#isWhole(answer)) return merged(this.#rounded(answer, band));
    // Behind a rounded step the unrounded number is only known to a unit of the written one.
    return this.#followsHidden(answer) ? [band, this.#unrounded.get(answer) as Band] : [band];
  }

  #isWhole(answer: Answer): boolean {
    return this.#given.get(answer)?.every((row) => row.every(Boolean)) ?? false;
  }

  #followsHidden(answer: Answer): boolean {
    return SOURCES[answer].some((name) => !this.#isWhole(name) || this.#followsHidden(name));
  }

  *#rounded(answer: Answer, band: Band): Generator<Band> {
    const given = this.#given.get(answer) as Cells;
    yield band;
    for (const way of this.waysTo(answer)) {
      const fixed = where(given, band, way);
      yield fixed;
      for (const how of this.#roundings) yield where(given, band, rounded(fixed, how));
    }
  }
}

function decimalsOf({ units }: Printed): number[] {
  const places = units.flat().map((unit) => (unit > 0 ? Math.round(-Math.log10(unit)) : 0));
  return places.filter((place) => place >= 2 && place <= 8);
}

function* product(lists: readonly (readonly Band[])[]): Generator<readonly Band[]> {
  const [first, ...others] = lists;
  if (!first) {
    yield [];
    return;
  }
  for (const one of first) for (const rest of product(others)) yield [one, ...rest];
}

function where(given: Cells, band: Band, other: Band): Band {
  const pick = (mine: Matrix, yours: Matrix) =>
    map(yours, (value, r, c) => (given[r]?.[c] ? (mine[r]?.[c] as number) : value));
  return {
    value: pick(band.value, other.value),
    low: pick(band.low, other.low),
    high: pick(band.high, other.high),
  };
}

/** Ways that differ; where they are too many, the first and one band that holds all. */
function merged(ways: Iterable<Band>): readonly Band[] {
  const apart = new Map<string, Band>();
  let hull: Band | undefined;
  for (const way of ways) {
    hull = hull ? around(hull, way) : way;
    const ends = [...way.low.flat(), ...way.high.flat()];
    const key = ends.map((value) => Math.round(value * 1e12) / 1e12 + 0).join();
    if (apart.size <= MOST && !apart.has(key)) apart.set(key, way);
  }
  const all = [...apart.values()];
  return all.length > MOST ? [all[0] as Band, hull as Band] : all;
}

function around(hull: Band, way: Band): Band {
  const end = (a: Matrix, b: Matrix, pick: (a: number, b: number) => number) =>
    map(a, (value, r, c) => {
      const other = b[r]?.[c] as number;
      return Number.isNaN(other) ? value : Number.isNaN(value) ? other : pick(value, other);
    });
  return {
    value: hull.value,
    low: end(hull.low, way.low, Math.min),
    high: end(hull.high, way.high, Math.max),
  };
}
