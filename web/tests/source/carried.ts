import { readFileSync } from "node:fs";
import type { Known } from "../../src/source/answers";

/** A page's payload, and what Python says of the same heads (tests/viewer/test_file_source.py). */
export interface Case {
  readonly name: string;
  readonly blobs: readonly string[];
  readonly step: number;
  readonly heads: readonly Expected[];
  /** Of the first stack, codes as the page should draw them. */
  readonly labels: readonly string[];
}

interface Expected {
  readonly label: string;
  readonly shape: readonly [number, number];
  readonly rows: readonly {
    readonly row: number;
    readonly visible: number;
    /** null where the row may not look. */
    readonly weights: readonly Known[];
    readonly top: readonly { readonly key: number; readonly weight: number }[];
  }[];
  readonly tiles: readonly {
    readonly at: { readonly level: number; readonly y: number; readonly x: number };
    readonly how: "mean" | "max";
    readonly codes: string;
  }[];
  readonly tracks: Readonly<Record<string, readonly Known[] | null>>;
}

export const cases: readonly Case[] = process.env.REGARD_CARRIED
  ? (JSON.parse(readFileSync(process.env.REGARD_CARRIED, "utf8")) as Case[])
  : [];
