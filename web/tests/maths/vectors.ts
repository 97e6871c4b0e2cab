import { readFileSync } from "node:fs";
import { expect } from "vitest";
import type { LessonData } from "../../src/learner/data";
import type { Asked } from "../../src/learner/make";
import type { Projections } from "../../src/maths/lesson";
import type { Matrix, Vector } from "../../src/maths/matrix";

// What tools/page_vectors.py wrote: the same numbers, by Python's definitions.

type Nullable = readonly (readonly (number | null)[])[];

export interface LessonVectors {
  readonly data: LessonData;
  readonly worked: {
    readonly embeddings: { readonly x: Matrix };
    readonly heads: readonly Readonly<Record<string, Nullable>>[];
    readonly concat: Matrix;
    readonly output: Matrix;
    readonly block: Readonly<Record<string, Matrix>> | null;
  };
}

export interface GradingVectors {
  readonly seed: number;
  readonly name: string;
  readonly cells: Readonly<Record<string, readonly (readonly string[])[]>>;
  readonly steps: Readonly<
    Record<
      string,
      {
        readonly units: Matrix;
        readonly value: Matrix;
        readonly low: Matrix;
        readonly high: Matrix;
        readonly wrong: readonly (readonly boolean[])[];
      }
    >
  >;
  readonly first_wrong: string | null;
}

type VocabularyName = "notes" | "features" | "smollm2";

interface Vectors {
  readonly made: readonly { readonly asked: Asked; readonly data: Partial<LessonData> }[];
  readonly words: readonly {
    readonly word: string;
    readonly bare: string;
    readonly vectors: Readonly<Record<VocabularyName, Vector>>;
    readonly made_up: Readonly<Record<VocabularyName, boolean>>;
  }[];
  readonly random_projections: readonly {
    readonly seed: string;
    readonly heads: readonly Projections[];
    readonly w_o: Matrix;
  }[];
  readonly python: string;
  readonly lessons: Readonly<Record<string, LessonVectors>>;
  readonly next: readonly {
    readonly hidden: Vector;
    readonly embeddings: Matrix;
    readonly temperature: number;
    readonly words: readonly string[];
    readonly logits: Vector;
    readonly probabilities: Vector;
  }[];
  readonly palette: readonly (readonly [number, number, number])[];
  readonly light: readonly boolean[];
  readonly codes: {
    readonly times: Vector;
    readonly tile_codes: Vector;
    readonly time_shares: Vector;
    readonly low: number;
    readonly high: number;
    readonly shares: Vector;
    readonly codes: Vector;
  };
  readonly rows: readonly {
    readonly scores: Vector;
    readonly weights: Vector;
    readonly entropy: number;
    readonly jacobian_norm: number;
  }[];
  readonly gradients: readonly {
    readonly scores: Matrix;
    readonly upstream: Matrix;
    readonly keys: Matrix;
    readonly factor: number;
    readonly gradient: Matrix;
    readonly weights: Matrix;
  }[];
  readonly temperature: readonly {
    readonly scores: Vector;
    readonly weights: Vector;
    readonly slope: number;
  }[];
  readonly quantiles: readonly {
    readonly sample: Vector;
    readonly median: number;
    readonly p99: number;
  }[];
  readonly gradings: readonly GradingVectors[];
  /** How Python reads a cell: null is no number, a value of null a blank, a unit of null whole. */
  readonly cells: readonly {
    readonly text: string;
    readonly read: { readonly value: number | null; readonly unit: number | null } | null;
  }[];
}

function load(): Vectors {
  const path = process.env.REGARD_VECTORS;
  if (!path) {
    throw new Error(
      "REGARD_VECTORS names no file of vectors from Python; run tools/page_vectors.py, or make test",
    );
  }
  return JSON.parse(readFileSync(path, "utf8")) as Vectors;
}

export const vectors = load();

const TOLERANCE = 1e-12;

/** Equal within 1e-12 of the largest number of the row; a hidden cell is null or −∞. */
export function expectClose(found: Vector, wanted: readonly (number | null)[]): void {
  expect(found.length).toBe(wanted.length);
  const size = Math.max(...wanted.map((value) => Math.abs(value ?? 0)));
  found.forEach((value, c) => {
    const right = wanted[c] ?? Number.NEGATIVE_INFINITY;
    if (!Number.isFinite(right)) expect(value).toBe(right);
    else
      expect(Math.abs(value - right), `${value}, not ${right}`).toBeLessThanOrEqual(
        TOLERANCE * size,
      );
  });
}

export function expectMatrix(found: Matrix, wanted: Nullable): void {
  expect(found.length).toBe(wanted.length);
  const size = Math.max(...wanted.flat().map((value) => Math.abs(value ?? 0)));
  found.forEach((row, r) => {
    const right = wanted[r] ?? [];
    expect(row.length).toBe(right.length);
    row.forEach((value, c) => {
      const cell = right[c] ?? Number.NEGATIVE_INFINITY;
      if (!Number.isFinite(cell)) expect(value).toBe(cell);
      else expect(Math.abs(value - cell), `[${r}, ${c}]`).toBeLessThanOrEqual(TOLERANCE * size);
    });
  });
}
