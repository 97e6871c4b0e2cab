import type { Answers, HeadFacts, Listing, Tokens, Track, TrainingFacts } from "./answers";
import type { Part } from "./codec";

// What a self-contained page carries of a recording, as src/regard/viewer/carried.py writes it.

/** In the page's JSON. Everything else lies in blobs: 0 the facts, then one for each head. */
export interface CarriedRecording {
  readonly kind: "recording";
  readonly carries: {
    readonly form: "exact" | "rounded" | "pooled";
    /** What weights are rounded to; 0 where they are not. */
    readonly step: number;
    /** What a reader must know of this file, in sentences. */
    readonly words: readonly string[];
    readonly heads: readonly string[];
  };
  /** Where the page opens, as words of an address; at the overview where there are none. */
  readonly open?: Readonly<Record<string, string>>;
}

/** Whole numbers that follow one another, `span[0]` to `span[1]`, or a list of them. */
interface Edges {
  readonly span: readonly [number, number] | null;
  readonly edges: readonly number[] | null;
}

export interface CarriedTrack extends Edges {
  readonly words: string;
}

/** Which keys each carried row may see: `counts` runs a row (one, where null) of two edges each. */
export interface CarriedSight {
  readonly span: readonly [start: number, stop: number] | null;
  readonly rows: readonly number[] | null;
  readonly counts: readonly number[] | null;
  readonly edges: readonly number[];
}

export interface CarriedHead extends Omit<HeadFacts, "tracks" | "scale" | "caveat"> {
  readonly tracks: Readonly<Record<keyof HeadFacts["tracks"], CarriedTrack | null>>;
  readonly carried: {
    readonly blob: number;
    readonly parts: readonly Part[];
    readonly sight: number | null;
  };
}

/** A training run, as src/regard/viewer/carried_training.py writes it. */
export interface CarriedTraining {
  readonly facts: TrainingFacts;
  /** By statistic, what the server would send. */
  readonly strips: Readonly<
    Record<string, { readonly blob: number; readonly sizes: Readonly<Record<string, number>> }>
  >;
  /** By head, its stored maps one behind the other. */
  readonly maps: Readonly<
    Record<string, { readonly blob: number; readonly stored: readonly CarriedMap[] }>
  >;
}

export interface CarriedMap {
  readonly step: number;
  readonly rows: number;
  readonly columns: number;
}

/** Answers that the file has as they are, by their names; findings are null beside a run alone. */
type AsTheyAre = Omit<Answers, "tokens" | "head" | "row" | "training" | "compare" | "findings">;

export interface CarriedFacts extends AsTheyAre {
  readonly listing: Listing;
  readonly findings: Answers["findings"] | null;
  readonly tokens: Readonly<Record<string, Tokens>>;
  readonly heads: Readonly<Record<string, CarriedHead>>;
  readonly sights: readonly CarriedSight[];
  /** By picture, its blob; null where there was no room for it. */
  readonly pictures: readonly (number | null)[];
  /** null where none was monitored, or where single heads were chosen. */
  readonly training: CarriedTraining | null;
}

export function edgesOf(track: Edges): readonly number[] {
  if (track.edges) return track.edges;
  const [first, last] = track.span ?? [0, 0];
  return Array.from({ length: last - first + 1 }, (_, n) => first + n);
}

/** Numbers as JSON has them: null for what is none. */
export function known(values: Float32Array): Track["mean"] {
  return Array.from(values, (value) => (Number.isFinite(value) ? value : null));
}
