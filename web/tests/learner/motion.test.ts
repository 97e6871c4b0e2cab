import { describe, expect, it } from "vitest";
import type { LessonData } from "../../src/learner/data";
import { captionOf } from "../../src/learner/motion/captions";
import { type Frame, type Frames, frameAt, lastFrame } from "../../src/learner/motion/frames";
import { gridOf } from "../../src/learner/motion/geometry";
import { added, type FilmNumbers, filmNumbers } from "../../src/learner/motion/numbers";
import { ribbonsOf } from "../../src/learner/motion/ribbons";
import { segmentsOf, stackOf } from "../../src/learner/motion/squeezing";
import {
  indexAt,
  lengthOf,
  SCENES,
  type Scene,
  stepFrom,
  stillOf,
  timelineOf,
} from "../../src/learner/motion/timeline";
import { edit, type LessonState, makeState } from "../../src/learner/state";
import { Random } from "../../src/maths/random";

const TIMES = 200;

interface Asked {
  readonly tokens: number;
  readonly heads?: number;
  readonly causal?: boolean;
  readonly scaled?: boolean;
  readonly row?: number;
  readonly d_k?: number;
}

/** A lesson of tokens t0, t1, … with drawn numbers. */
function lessonOf({ tokens, heads = 1, causal, scaled, row = 0, d_k = 3 }: Asked): LessonState {
  const random = new Random(5);
  const matrix = (rows: number, columns: number) =>
    Array.from({ length: rows }, () => Array.from({ length: columns }, () => random.normal()));
  const names = Array.from({ length: tokens }, (_, i) => `t${i}`);
  const width = 4;
  return makeState({
    tokens: names,
    labels: names,
    row,
    options: { causal, scaled },
    embeddings: {
      source: "",
      made_up: [],
      words: matrix(tokens, width),
      positions: matrix(tokens, width),
    },
    heads: Array.from({ length: heads }, () => ({
      w_q: matrix(width, d_k),
      w_k: matrix(width, d_k),
      w_v: matrix(width, 2),
    })),
    w_o: heads > 1 ? matrix(heads * 2, width) : null,
    block: { w_1: matrix(width, width), w_2: matrix(width, width) },
  } as unknown as LessonData);
}

function withEdits(): LessonState {
  const state = lessonOf({ tokens: 5, row: 2 });
  edit(state, "words", 1, 0, 2.5);
  edit(state, "h0.scores", 2, 0, -1.25);
  edit(state, "h0.scaled", 2, 1, 0.75);
  return state;
}

function secondHead(): LessonState {
  const state = lessonOf({ tokens: 6, heads: 2, row: 3 });
  state.head.value = 1;
  return state;
}

const LESSONS: Readonly<Record<string, () => LessonState>> = {
  plain: () => lessonOf({ tokens: 3 }),
  causal: () => lessonOf({ tokens: 7, causal: true, row: 2 }),
  edited: withEdits,
  "not scaled": () => lessonOf({ tokens: 4, scaled: false }),
  "second of 2 heads": secondHead,
  "24 tokens": () => lessonOf({ tokens: 24, row: 9 }),
  "24 tokens, causal": () => lessonOf({ tokens: 24, row: 13, causal: true, heads: 2 }),
  "512 tokens": () => lessonOf({ tokens: 512, row: 400, causal: true, d_k: 64 }),
};

function tokenOf(label: string): number {
  return Number(label.slice(1));
}

/** The frames at 200 times of some scenes, first and last included. */
function framesOf(numbers: FilmNumbers, scenes: readonly Scene[] = SCENES): readonly Frame[] {
  const moments = timelineOf(numbers, scenes);
  const length = lengthOf(moments);
  return Array.from({ length: TIMES }, (_, n) =>
    frameAt(numbers, moments, (n * (length - 1)) / (TIMES - 1)),
  );
}

function inScene<S extends Scene>(numbers: FilmNumbers, scene: S): readonly Frames[S][] {
  return framesOf(numbers, [scene]).map((frame) => frame.of as Frames[S]);
}

describe.each(Object.entries(LESSONS))("%s", (_, make) => {
  const state = make();
  const numbers = filmNumbers(state);
  const row = state.focus.value;
  const head = state.worksOn.value;

  it("has the lesson's own numbers", () => {
    for (const key of numbers.keys) {
      const j = tokenOf(key.label);
      expect(key.key).toEqual(head.keys[j]);
      expect(key.score).toBe(head.scores[row]?.[j]);
      expect(key.scaled).toBe(head.scaled[row]?.[j]);
      expect(key.masked).toBe(head.masked[row]?.[j]);
      expect(key.weight).toBe(head.weights[row]?.[j]);
      expect(key.value).toEqual(head.values[j]);
    }
    expect(numbers.concat).toEqual(state.worked.value.concat[row]);
    expect(numbers.output).toEqual(state.worked.value.output[row]);
  });

  it("shows at most 13 keys and accounts for all others", () => {
    const { keys, rest } = numbers;
    expect(keys.length).toBeLessThanOrEqual(13);
    expect(keys.length + (rest?.seen ?? 0) + (rest?.hidden ?? 0)).toBe(state.lesson.tokens.length);
    expect(numbers.weightSum).toBeCloseTo(1, 9);
    const shown = keys.reduce((sum, key) => sum + key.weight, rest?.weight ?? 0);
    expect(shown).toBeCloseTo(1, 9);
    for (const key of keys) expect(key.power / numbers.total).toBeCloseTo(key.weight, 9);
  });

  it("fills in one score after another, each with all its products", () => {
    let before = 0;
    for (const frame of inScene(numbers, "meet")) {
      expect(frame.scores).toBeGreaterThanOrEqual(before);
      expect(frame.scores - before).toBeLessThanOrEqual(1);
      expect(frame.met).toBeGreaterThanOrEqual(frame.scores);
      before = frame.scores;
    }
    expect(before).toBe(numbers.keys.length);
  });

  it("squeezes the bars into one of length 1, each as long as its weight", () => {
    for (const width of [340, 760]) {
      const grid = gridOf(numbers, width);
      const stack = stackOf(grid);
      for (const frame of inScene(numbers, "squeeze")) {
        const segments = segmentsOf(numbers, grid, 180, frame);
        for (const { now } of segments) {
          expect(now.x).toBeGreaterThanOrEqual(stack.x - 1e-9);
          expect(now.x + now.width).toBeLessThanOrEqual(width);
        }
        if (frame.squeezed < 1) continue;
        numbers.keys.forEach((key, i) => {
          expect(segments[i]?.now.width).toBeCloseTo(key.weight * stack.width, 6);
        });
        let end = stack.x; // one begins where the one before ends
        for (const { now } of segments) {
          expect(now.x).toBeCloseTo(end, 6);
          end = now.x + now.width;
        }
        expect(end).toBeCloseTo(stack.x + stack.width, 6);
      }
    }
  });

  it("draws ribbons as wide as the weights", () => {
    for (const width of [340, 760]) {
      const grid = gridOf(numbers, width);
      const { ribbons, node } = ribbonsOf(numbers, grid, 200);
      numbers.keys.forEach((key, i) => {
        expect((ribbons[i]?.thickness ?? 0) / node.height).toBeCloseTo(key.weight, 9);
        expect(ribbons[i]?.thickness).toBeLessThanOrEqual(grid.rowHeight);
      });
      expect(node.y).toBeGreaterThanOrEqual(grid.top);
      expect(node.y + node.height).toBeLessThanOrEqual(grid.bottom + 1e-9);
    }
  });

  it("adds up what has arrived, and ends with the output", () => {
    const terms = numbers.rest ? [...numbers.keys, numbers.rest] : numbers.keys;
    for (const frame of inScene(numbers, "flow")) {
      const sum = added(terms.slice(0, frame.arrived), numbers.context.length);
      frame.sum.forEach((value, d) => {
        expect(value).toBeCloseTo(sum[d] ?? Number.NaN, 9);
      });
    }
    const last = lastFrame(numbers, timelineOf(numbers, SCENES), "flow");
    expect(last.scene === "flow" && last.of.sum).toEqual(head.context[row]);
  });

  it("brings the heads into concat and through w_o", () => {
    const frames = inScene(numbers, "heads");
    for (const { slid, through } of frames) {
      if (through > 0) expect(slid.every((share) => share === 1)).toBe(true);
    }
    expect(frames[0]?.slid.every((share) => share === 0)).toBe(true);
    expect(frames.at(-1)?.isMixed).toBe(true);
  });

  it("has a sentence for every moment", () => {
    for (const moment of timelineOf(numbers, SCENES)) {
      expect(captionOf(numbers, moment)).toMatch(/\S/);
      expect(captionOf(numbers, moment)).not.toMatch(/undefined|NaN/);
    }
  });
});

describe("moments", () => {
  const numbers = filmNumbers(lessonOf({ tokens: 4, causal: true, row: 1 }));
  const moments = timelineOf(numbers, SCENES);

  it("can be stepped through, forward and back", () => {
    let time = 0;
    for (let n = 1; n < moments.length; n += 1) {
      time = stepFrom(moments, time, 1);
      expect(indexAt(moments, time)).toBe(n);
      expect(time).toBe(stillOf(moments, n));
    }
    expect(stepFrom(moments, time, 1)).toBe(time);
    for (let n = moments.length - 2; n >= 0; n -= 1) {
      time = stepFrom(moments, time, -1);
      expect(indexAt(moments, time)).toBe(n);
    }
  });

  it("come to rest at their stills: the next moment begins where one ends", () => {
    for (let n = 1; n < moments.length; n += 1) {
      const [before, after] = [moments[n - 1], moments[n]];
      if (!before || !after) throw new Error("a moment is missing");
      expect(after.start).toBe(before.start + before.length);
      if (after.scene !== "meet") continue;
      const still = frameAt(numbers, moments, stillOf(moments, n - 1));
      const next = frameAt(numbers, moments, after.start);
      if (still.scene !== "meet" || next.scene !== "meet") throw new Error("another scene");
      expect(next.of.at).toBe(still.of.at);
      expect(next.of.scores).toBe(still.of.scores);
    }
  });

  it("mask only where there is a mask", () => {
    const kinds = (asked: Asked) =>
      timelineOf(filmNumbers(lessonOf(asked)), ["scale"]).map((moment) => moment.kind);
    expect(kinds({ tokens: 3 })).not.toContain("scale.mask");
    expect(kinds({ tokens: 3, causal: true })).toContain("scale.mask");
  });
});

describe("sentences", () => {
  const IDENTITY = [
    [1, 0],
    [0, 1],
  ];
  const notes = () =>
    makeState({
      tokens: ["cat", "sat"],
      labels: ["cat", "sat"],
      row: 0,
      options: {},
      embeddings: {
        source: "",
        made_up: [],
        words: [
          [2, 0],
          [1, -1],
        ],
        positions: IDENTITY,
      },
      heads: [{ w_q: IDENTITY, w_k: IDENTITY, w_v: IDENTITY }],
      w_o: null,
      block: { w_1: IDENTITY, w_2: IDENTITY },
    } as unknown as LessonData);
  const captions = (state: LessonState) => {
    const numbers = filmNumbers(state);
    return timelineOf(numbers, SCENES).map((moment) => captionOf(numbers, moment));
  };

  it("spell out the products, negative ones in brackets", () => {
    expect(captions(notes())).toContain("q(cat) meets k(sat): 2·1 + 0·(−1) = 2");
  });

  it("say ≈ where digits are left out", () => {
    const state = notes();
    edit(state, "h0.keys", 1, 0, 1 / 3);
    expect(captions(state)).toContain("q(cat) meets k(sat): 2.00·0.33 + 0.00·(−1.00) ≈ 0.667");
  });

  it("say what was set by hand", () => {
    const state = notes();
    edit(state, "h0.scores", 0, 1, 5);
    expect(captions(state)).toContain(
      "q(cat) meets k(sat): 2·1 + 0·(−1) would give 2; set by hand, the score is 5.",
    );
    edit(state, "h0.weights", 0, 1, 0.5);
    edit(state, "h0.context", 0, 0, 9);
    const said = captions(state).join("\n");
    expect(said).toMatch(/the weights add up to 0\.\d+, not to 1/);
    expect(said).toMatch(/set by hand, the head's output for “cat” is \(9/);
  });

  it("say that scaling is off, and that one head stands alone", () => {
    const state = notes();
    state.given.value = { ...state.given.value, scaled: false };
    expect(captions(state)).toContain("Scaling is off: the scores stay as they are.");
    expect(captions(state)).toContain("One head has nothing beside it: concat is its output.");
  });
});
