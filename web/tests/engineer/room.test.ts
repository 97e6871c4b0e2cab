import { describe, expect, it } from "vitest";
import { distanceGrid, distanceScale } from "../../src/engineer/compare/distances";
import { changesOf } from "../../src/engineer/findings/knocked";
import { modelName } from "../../src/engineer/modelName";
import { choicesOf } from "../../src/engineer/PromptPicker";
import {
  comparePlace,
  headPlace,
  otherOf,
  overviewPlace,
  rowPlace,
  samePlace,
  viewOf,
  whereOf,
} from "../../src/engineer/places";
import { notRecorded, progressOf } from "../../src/engineer/states/Standing";
import { roundUp } from "../../src/maths/format";
import type { Comparison, Listing, Report } from "../../src/source/answers";
import { headOf, overviewOf, stackOf } from "./made";

const WHERE = { recording: 1, prompt: 2 };

describe("places", () => {
  it("say where they are", () => {
    expect(whereOf(headPlace(WHERE, "L0H0"))).toEqual(WHERE);
    expect(whereOf({ rec: "-1", prompt: "x" })).toEqual({ recording: 0, prompt: 0 });
    expect(viewOf({})).toBe("overview");
    expect(otherOf(overviewPlace(WHERE))).toBeNull();
    expect(otherOf(comparePlace(WHERE, { recording: 3, prompt: 4 }))).toEqual({
      recording: 3,
      prompt: 4,
    });
  });

  it("keep the head, and leave the row behind, where the prompt changes", () => {
    const next = { recording: 0, prompt: 1 };
    expect(samePlace(headPlace(WHERE, "L3H1"), next)).toEqual(headPlace(next, "L3H1"));
    expect(samePlace(rowPlace(WHERE, "L3H1", 5), next)).toEqual(overviewPlace(next));
  });
});

describe("the header", () => {
  const listing = (recording: number, prompts: number): Listing => ({
    ...{ recording, prompts, name: `${"ab"[recording]}.regard` },
    ...{ revision: 0, live: false, damage: [], model: {} },
  });

  it("names every prompt that can be chosen", () => {
    const titled = { title: "the sea", tokens: 3, generated: 0, finished: true };
    const overview = overviewOf({ prompts: [{ ...titled, next: [], streams: {} }] });
    const found = choicesOf([listing(0, 1), listing(1, 2)], overview);
    expect(found.map((one) => one.text)).toEqual([
      "a.regard · the sea",
      "b.regard · prompt 0",
      "b.regard · prompt 1",
    ]);
  });

  it("names a training run, which has no prompt, by its file", () => {
    const found = choicesOf([listing(0, 1), listing(1, 0)], undefined);
    expect(found[1]).toEqual({ recording: 1, prompt: 0, text: "b.regard" });
    expect(choicesOf([listing(0, 0)], undefined)).toHaveLength(1);
  });

  it("calls a model of a folder by the folder's own name", () => {
    expect(modelName({ model: { name: "/some/where/smollm2" } })).toBe("smollm2");
    expect(modelName({ model: { name: "org/model" } })).toBe("org/model");
    expect(modelName(undefined)).toBe("");
  });
});

describe("a recording that grows", () => {
  it("has the rows that every head has", () => {
    const heads = [
      { ...headOf("", 0, 0), recorded: [0, 512] as const, shape: [2048, 2048] as const },
      { ...headOf("", 1, 0), recorded: [0, 256] as const, shape: [2048, 2048] as const },
    ];
    expect(progressOf(overviewOf({ heads }))).toEqual({ here: 256, all: 2048 });
    expect(progressOf(overviewOf({}))).toEqual({ here: 0, all: 0 });
  });
});

describe("distances", () => {
  const head = { how: "rows", rows: 9, worst_rows: null, worst_distance: null } as const;
  const side = { recording: 0, prompt: 0, name: "", model: "", title: "" };
  const found: Comparison = {
    ...{ a: side, b: side, alignment: "", doubts: [], only_a: [], only_b: [], largest: 0.31 },
    heads: [
      { ...head, label: "L0H1", distance: 0.31, worst_token: null, profiles: {} },
      { ...head, label: "L1H0", distance: null, worst_token: null, profiles: {} },
    ],
  };

  it("lie in the grid of the first", () => {
    const stack = stackOf("", [
      [0, 0],
      [0, 0],
    ]);
    const heads = [headOf("", 0, 1), headOf("", 1, 0)];
    const grid = distanceGrid(found, overviewOf({ heads, stacks: [stack] }), stack);
    expect(grid).toEqual([
      [null, 0.31],
      [null, null],
    ]);
  });

  it("are coloured up to a round number", () => {
    expect([0.31, 0.05, 0.6].map(roundUp)).toEqual([0.5, 0.05, 1]);
    expect(distanceScale(found)).toMatchObject({ low: 0, high: 0.5 });
    expect(distanceScale({ ...found, largest: 0.99 }).high).toBe(1);
    expect(distanceScale({ ...found, largest: 1e-9 }).high).toBe(1e-6);
  });
});

describe("knock-outs", () => {
  const usual = { typical_delta_logit: 0.01, typical_delta_logprob: 0.02, typical_kl: 0.002 };
  const numbers = { delta_logit: -0.5, delta_logprob: 0.3, kl: 0.1, ...usual };
  const report = { knocked: { L1H2: { text: numbers, copying: numbers } } } as unknown as Report;

  it("are told beside what is usual", () => {
    const found = changesOf(report, "L1H2");
    expect(found.map((one) => [one.value, one.typical])).toEqual([
      [0.3, 0.02],
      [-0.5, 0.01],
      [0.1, 0.002],
      [0.3, 0.02],
      [-0.5, 0.01],
    ]);
    expect(changesOf(report, "L0H0")).toEqual([]);
  });
});

describe("what is missing", () => {
  it("names modules whose attention was not recorded", () => {
    const named = ["layers.* (OwnAttention), 2 of them", "pool (ByHand)"];
    expect(notRecorded({ not_recorded: named })).toEqual(named);
    expect(notRecorded({ date: "2026-01-01" })).toEqual([]);
    expect(notRecorded({ not_recorded: "x" })).toEqual([]);
  });
});
