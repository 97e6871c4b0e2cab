import { describe, expect, it } from "vitest";
import {
  binOf,
  cellOf,
  firstChoice,
  lastUpTo,
  moved,
  nextAlarm,
  rowsOf,
} from "../../src/engineer/training/choice";
import { bandOf, pathOf } from "../../src/engineer/training/HeadLine";
import { lineScale } from "../../src/engineer/training/lineScale";
import { brokenRuns, lossAt, lossScale, lossSeries } from "../../src/engineer/training/loss";
import { marksOf } from "../../src/engineer/training/overLimit";
import { readingAt, seriesOf } from "../../src/engineer/training/reading";
import { binsFor } from "../../src/engineer/training/run";
import { at, layoutOf, leftOf } from "../../src/engineer/training/stripLayout";
import { columnsOf, ticksOf } from "../../src/engineer/training/stripPainting";
import { stripScale } from "../../src/engineer/training/stripScale";
import type { TrainingFacts } from "../../src/source/answers";
import { FileSource } from "../../src/source/file";
import { type Strips, stripsOf } from "../../src/source/training";

const END = { value: 1, head: "L0H0", step: 0 };
const COURSE = { median_first: 1, median_last: 1, least: END, largest: END };
const LIMIT = { side: "above", value: 10, customary: true } as const;
const FACTS: TrainingFacts = {
  recording: 0,
  revision: 0,
  samples: 4,
  steps: [0, 30],
  places: ["L0", "cross.L0"],
  heads: [2, 1],
  statistics: {
    max_score: { words: "largest", span: "spread", limit: LIMIT, ...COURSE },
    peak: { words: "peak", span: "one", limit: null, ...COURSE },
  },
  alarms: [
    {
      kind: "score growth",
      head: "L0H1",
      step: 20,
      statistic: "max_score",
      value: 12,
      threshold: 10,
    },
  ],
  loss: null,
  maps: { L0H1: [0, 20] },
};
const ROWS = rowsOf(FACTS);
const CHOICE = { statistic: "max_score", row: undefined, step: 30, hasStep: false };

/** As the server sends it: 4 bins, 2 places × 2 heads, the last of which was never heard. */
function sent(planes: readonly number[][], over: number[]): Strips {
  const wide = Float64Array.from([0, 10, 20, 30, 0, 10, 20, 30, ...over]);
  const narrow = Float32Array.from([...planes.flat(), ...over.map((step) => step / 2)]);
  const bytes = new Uint8Array(wide.byteLength + narrow.byteLength);
  bytes.set(new Uint8Array(wide.buffer));
  bytes.set(new Uint8Array(narrow.buffer), wide.byteLength);
  const sizes: Record<string, number> = { planes: planes.length, bins: 4, cells: 4, heads: 2 };
  return stripsOf("max_score", bytes.buffer, (name) => sizes[name] ?? 0);
}

const NO = Number.NaN;
const MEANS = [1, 2, 3, NO, 1, 4, NO, NO, 1, 12, 5, NO, 1, 14, 6, NO];
const STRIPS = sent([MEANS], [-1, 20, -1, -1]);

describe("what the server sends", () => {
  it("is taken apart", () => {
    expect([...STRIPS.first]).toEqual([0, 10, 20, 30]);
    expect(STRIPS.least).toBe(STRIPS.mean);
    expect(readingAt(STRIPS, 1, 2)).toMatchObject({ first: 20, last: 20, mean: 12 });
    const least = MEANS.map((value) => value - 1);
    const largest = MEANS.map((value) => value + 1);
    const binned = sent([MEANS, least, largest], [-1, 20, -1, -1]);
    expect(readingAt(binned, 1, 3)).toMatchObject({ mean: 14, least: 13, largest: 15 });
    expect(binned.overValue[1]).toBe(10);
  });

  it("is asked for in fewer bins where there are many heads", () => {
    expect(binsFor(FACTS)).toBe(2048);
    expect(binsFor({ ...FACTS, heads: [512, 512] })).toBe(1024);
    expect(binsFor({ ...FACTS, heads: [5000, 5000] })).toBe(256);
  });

  it("may be carried by a file", async () => {
    const strips = Float64Array.from([0, 30, 10, 30, -1]);
    const numbers = Float32Array.from([1, 2, 0.5, 1, 3, 4, NO]); // means, least, largest; none over
    const maps = Float32Array.from([0.1, 0.2, 0.3, 0.4, 0.5]);
    const sizes = { planes: 3, bins: 2, cells: 1, heads: 1 };
    const stored = [
      { step: 0, rows: 1, columns: 3 },
      { step: 20, rows: 2, columns: 1 },
    ];
    const training = {
      facts: FACTS,
      strips: { peak: { blob: 1, sizes } },
      maps: { L0H1: { blob: 2, stored } },
    };
    const told = new TextEncoder().encode(JSON.stringify({ training }));
    const blobs = await Promise.all([
      packed(told),
      packed(bytesOf(strips), bytesOf(numbers)),
      packed(bytesOf(maps)),
    ]);
    const source = new FileSource((number) => blobs[number] ?? "");
    expect(await source.ask("training", HERE)).toEqual(FACTS);
    const found = await source.strips(HERE, "peak");
    expect([...found.first, ...found.last, ...found.over]).toEqual([...strips]);
    expect([...found.mean, ...found.least, ...found.largest]).toEqual([1, 2, 0.5, 1, 3, 4]);
    expect([...(await source.snapshot(HERE, "L0H1", 19)).weights]).toEqual([...maps.slice(0, 3)]);
    const late = await source.snapshot(HERE, "L0H1", 99);
    expect(late).toMatchObject({ step: 20, rows: 2, columns: 1 });
    expect([...late.weights]).toEqual([...maps.slice(3)]);
    await expect(source.snapshot(HERE, "L0H0", 9)).rejects.toThrow("No map of L0H0 up to step 9");
    await expect(source.strips(HERE, "nothing")).rejects.toThrow("nothing");
    await expect(source.ask("findings", HERE)).rejects.toThrow("a training run and no text");
  });

  it("stands beside whatever else a file has", async () => {
    const told = await packed(new TextEncoder().encode('{"overview":{"name":"a"}}'));
    const asked = new FileSource(() => told).ask("overview", HERE);
    expect(await asked).toEqual({ name: "a" });
  });

  it("need not be", async () => {
    const none = await packed(new TextEncoder().encode('{"training":null}'));
    const asked = new FileSource(() => none).ask("training", HERE);
    await expect(asked).rejects.toThrow("regard view run.regard");
  });
});

const HERE = { recording: 0, prompt: 0 };

function bytesOf(numbers: Float32Array | Float64Array): Uint8Array {
  return new Uint8Array(numbers.buffer as ArrayBuffer);
}

/** As a page carries it. */
async function packed(...parts: readonly Uint8Array[]): Promise<string> {
  const stream = new CompressionStream("deflate");
  const writer = stream.writable.getWriter();
  for (const part of parts) void writer.write(part as Uint8Array<ArrayBuffer>);
  void writer.close();
  const bytes = new Uint8Array(await new Response(stream.readable).arrayBuffer());
  return btoa(String.fromCharCode(...bytes));
}

describe("what is meant", () => {
  it("is a head of a layer", () => {
    expect(ROWS.map((one) => one.label)).toEqual(["L0H0", "L0H1", "cross.L0H0"]);
    expect(ROWS.map((one) => cellOf(one, STRIPS))).toEqual([0, 1, 2]);
  });

  it("is the bin that begins at a step or before", () => {
    expect([-5, 0, 9, 10, 29, 30, 99].map((step) => binOf(step, STRIPS))).toEqual([
      0, 0, 0, 1, 2, 3, 3,
    ]);
  });

  it("moves, and the edges hold", () => {
    const start = { ...CHOICE, row: 0, step: 0 };
    expect(moved(start, { bins: 1 }, 3, STRIPS)).toMatchObject({ row: 0, step: 10 });
    expect(moved(start, { bins: -1, rows: -1 }, 3, STRIPS)).toMatchObject({ row: 0, step: 0 });
    expect(moved(start, { bins: 99, rows: 99 }, 3, STRIPS)).toMatchObject({ row: 2, step: 30 });
    expect(moved({ ...start, step: 13 }, { rows: 1 }, 3, STRIPS)).toMatchObject({ step: 13 });
  });

  it("begins at the first alarm", () => {
    expect(firstChoice(FACTS, ROWS, CHOICE)).toMatchObject({ row: 1, step: 20 });
    const peak = { ...CHOICE, statistic: "peak" };
    expect(firstChoice(FACTS, ROWS, peak)).toMatchObject({ row: 0, step: 30 });
    expect(nextAlarm(FACTS, ROWS, CHOICE)?.head).toBe("L0H1");
    expect(nextAlarm({ ...FACTS, alarms: [] }, ROWS, CHOICE)).toBeUndefined();
  });

  it("has the map that was stored last", () => {
    expect([0, 19, 20, 99].map((step) => lastUpTo(step, [0, 20]))).toEqual([0, 0, 20, 20]);
    expect(lastUpTo(3, [4])).toBeUndefined();
  });
});

describe("a strip", () => {
  it("marks who was over the limit, and who stayed", () => {
    expect(marksOf(FACTS, ROWS, STRIPS)).toEqual([
      { row: 1, label: "L0H1", step: 20, bin: 2, value: 12, isAlarm: true },
    ]);
    const alone = marksOf({ ...FACTS, alarms: [] }, ROWS, sent([MEANS], [-1, -1, 10, -1]));
    expect(alone).toEqual([
      { row: 2, label: "cross.L0H0", step: 10, bin: 1, value: 5, isAlarm: false },
    ]);
  });

  it("has a place for every head and step", () => {
    const layout = layoutOf(500, ROWS, FACTS.places, 4);
    for (const row of [0, 1, 2]) {
      for (const bin of [0, 1, 2, 3]) {
        const y = (layout.tops[row] ?? 0) + layout.row / 2;
        expect(at(layout, leftOf(layout, bin + 0.5), y)).toEqual({ row, bin });
      }
    }
    expect(at(layout, layout.left - 1, layout.tops[0] ?? 0)).toBeNull();
    expect(at(layout, layout.left + 1, layout.height - 2)).toBeNull();
    expect(ticksOf(layout, STRIPS).map((one) => one.step)).toEqual([0, 10, 20, 30]);
  });

  it("pools bins into columns, what is not known left out", () => {
    expect([...columnsOf(STRIPS, 1, 4)]).toEqual([2, 4, 12, 14]);
    expect([...columnsOf(STRIPS, 1, 2)]).toEqual([3, 13]);
    expect([...columnsOf(STRIPS, 2, 2)]).toEqual([3, 5.5]);
    expect([...columnsOf(STRIPS, 3, 1)]).toEqual([NO]);
  });

  it("is coloured by what can be, else by what there is", () => {
    const { max_score: score, peak } = FACTS.statistics;
    if (!score || !peak) throw new Error("no statistics");
    expect(stripScale(STRIPS, score)).toMatchObject({ low: 1, high: 14, log: false });
    expect(stripScale(STRIPS, peak)).toMatchObject({ low: 0, high: 1, log: false });
    const decades = { ...peak, span: "decades" as const };
    expect(stripScale(STRIPS, decades)).toMatchObject({ low: 1, high: 100, log: true });
    const nothing = sent([MEANS.map(() => NO)], [-1, -1, -1, -1]);
    expect(stripScale(nothing, score)).toMatchObject({ low: 0, high: 1 });
    const runaway = sent([MEANS.map((_, n) => (n === 9 ? 1e5 : 0.02))], [-1, -1, -1, -1]);
    expect(stripScale({ ...runaway, mean: long(runaway.mean) }, score).log).toBe(true);
  });
});

/** Many small numbers beside the few. */
function long(values: Float32Array): Float32Array {
  return Float32Array.from([...values, ...new Array(96).fill(0.02)]);
}

describe("a line", () => {
  it("is interrupted where nothing was heard", () => {
    const drawn = pathOf(
      seriesOf(STRIPS, 2),
      (bin) => bin,
      (value) => value,
    );
    expect(drawn).toBe("M0.00 3.00M2.00 5.00L3.00 6.00");
  });

  it("shows the limit where the head comes near it", () => {
    const colours = { name: "", low: 0, high: 1, log: false, hidden: 0, first: 1, last: 255 };
    const far = { ...LIMIT, value: 1000 };
    expect(lineScale(seriesOf(STRIPS, 2), LIMIT, colours)).toMatchObject({ low: 3, high: 10 });
    expect(lineScale(seriesOf(STRIPS, 2), far, colours)).toMatchObject({ low: 3, high: 6 });
    expect(lineScale(seriesOf(STRIPS, 3), far, colours)).toBe(colours);
  });
});

describe("the loss", () => {
  // of each of 4 bins the number, and whether it is not finite
  const means = [8, 0, NO, 1, NO, 1, 2, 0];
  const bytes = new ArrayBuffer(8 * 10 + 4 * 10);
  new Float64Array(bytes, 0, 10).set([0, 10, 20, 30, 0, 10, 20, 30, -1, -1]);
  new Float32Array(bytes, 80).set([...means, NO, NO]);
  const sizes: Record<string, number> = { planes: 1, bins: 4, cells: 2, heads: 2 };
  const series = lossSeries(stripsOf("loss", bytes, (name) => sizes[name] ?? 0));

  it("is a number, or is not finite", () => {
    expect(series[0]).toMatchObject({ first: 0, mean: 8, isBroken: false });
    expect(series[1]).toMatchObject({ first: 10, mean: NO, isBroken: true });
    expect(brokenRuns(series)).toEqual([{ first: 1, last: 2 }]);
    const strips = stripsOf("loss", bytes, (name) => sizes[name] ?? 0);
    expect(lossAt(strips, 3)).toMatchObject({ mean: 2, isBroken: false });
  });

  it("is drawn from its least to its largest, by decades where it falls far", () => {
    expect(lossScale(series)).toMatchObject({ low: 2, high: 8, log: false });
    const far = series.map((one) => ({ ...one, least: one.mean / 100 }));
    expect(lossScale(far)).toMatchObject({ low: 0.02, high: 8, log: true });
    const below = series.map((one) => ({ ...one, least: -1 }));
    expect(lossScale(below).log).toBe(false);
    expect(lossScale(series.slice(0, 1))).toMatchObject({ low: 7.5, high: 8.5 });
  });

  it("has a gap where it is not finite", () => {
    const drawn = bandOf(
      series,
      (bin) => bin,
      (value) => value,
    );
    expect(drawn).toBe("M0.00 8.00L0.00 8.00ZM3.00 2.00L3.00 2.00Z");
  });
});
