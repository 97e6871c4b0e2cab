// What a source answers, as the server's JSON says it (src/regard/viewer/answers.py).

/** `null` where a number is not known or not finite. */
export type Known = number | null;

export interface Damage {
  readonly offset: number;
  readonly reason: string;
}

export interface Listing {
  readonly recording: number;
  readonly name: string;
  readonly revision: number;
  readonly live: boolean;
  readonly damage: readonly Damage[];
  readonly model: Readonly<Record<string, unknown>>;
  readonly prompts: number;
}

export interface PromptFacts {
  readonly title: string;
  readonly tokens: number;
  readonly generated: number;
  readonly finished: boolean;
  readonly next: readonly { readonly token: string; readonly probability: Known }[];
  /** Tokens of each stream; null where the file is damaged there. */
  readonly streams: Readonly<Record<string, number | null>>;
}

export interface Scale {
  readonly name: string;
  readonly low: number;
  readonly high: number;
  readonly log: boolean;
  readonly hidden: number;
  readonly first: number;
  readonly last: number;
}

export interface StatisticFacts {
  readonly words: string;
  /** one: a share 0–1; entropy: nats; spread: from the smallest to the largest there is. */
  readonly span: "one" | "entropy" | "spread";
}

export type Grid = readonly (readonly Known[])[];

export interface Stack {
  /** "" for a model with one stack; encoder, decoder, cross otherwise. */
  readonly name: string;
  readonly layers: number;
  readonly heads: number;
  readonly grids: Readonly<Record<string, Grid | null>>;
}

export interface HeadShort {
  readonly label: string;
  readonly stack: string;
  readonly layer: number;
  readonly head: number;
  readonly shape: readonly [queries: number, keys: number];
  /** First row, and the one after the last. */
  readonly recorded: readonly [number, number];
  readonly exact: boolean;
}

export interface Overview extends Omit<Listing, "prompts"> {
  readonly made: Readonly<Record<string, unknown>>;
  readonly plan: Readonly<Record<string, unknown>>;
  readonly check: Readonly<Record<string, unknown>>;
  readonly prompts: readonly PromptFacts[];
  readonly prompt: number;
  readonly statistics: Readonly<Record<string, StatisticFacts>>;
  readonly scale: Scale;
  readonly caveat: string;
  readonly stacks: readonly Stack[];
  readonly heads: readonly HeadShort[];
  readonly problems: readonly string[];
}

export interface Tokens {
  readonly stream: string;
  readonly start: number;
  readonly total: number;
  readonly tokens: readonly string[];
  readonly ids: readonly number[];
  readonly flags: readonly number[];
}

/** Point n is about tokens edges[n] … edges[n + 1] − 1. */
export interface Track {
  readonly words: string;
  readonly edges: readonly number[];
  readonly mean: readonly Known[];
  readonly largest: readonly Known[];
}

export type How = "mean" | "max";

export interface HeadFacts extends HeadShort {
  readonly prompt: number;
  readonly revision: number;
  readonly place: string;
  readonly kind: "self" | "cross";
  readonly why_not: string | null;
  /** The rows that can be read weight by weight, where a file carries only some. */
  readonly rows?: readonly number[];
  readonly streams: { readonly queries: string; readonly keys: string };
  readonly statistics: Readonly<Record<string, Known>>;
  readonly stored: Readonly<Record<string, string | null>>;
  readonly tile: number;
  /** Tokens per pixel, finest first; empty where nothing can be drawn. */
  readonly levels: Readonly<Record<How, readonly number[]>>;
  readonly sight: boolean;
  readonly scale: Scale;
  readonly tracks: Readonly<Record<"received" | "distance" | "entropy", Track | null>>;
  readonly problems: readonly string[];
  readonly caveat: string;
}

export interface RowFacts {
  readonly head: string;
  readonly prompt: number;
  readonly row: number;
  readonly token: string;
  readonly visible: Known;
  readonly entropy?: Known;
  readonly keys: readonly [number, number];
  readonly top: readonly {
    readonly key: number;
    readonly token: string;
    readonly weight: Known;
  }[];
  readonly caveat: string;
  readonly exact: boolean;
  readonly why_not: string | null;
}

export interface Tile {
  /** 256 × 256 codes, row after row: 0 hidden, 1 … 255 on the scale. */
  readonly codes: Uint8Array;
  /** Cells that are no number. */
  readonly nan: number;
}

/** A weight that may be seen but is no number, since q or k held none: NaN is what is hidden. */
export function isBroken(weight: number): boolean {
  return weight === Number.POSITIVE_INFINITY;
}

export interface Cells {
  /** rows × keys weights, NaN where hidden, ∞ where the weight is no number (`isBroken`). */
  readonly weights: Float32Array;
  /** Keys that each row may see; NaN in rows that were not recorded. */
  readonly visible: Float32Array;
}

export interface EvidenceRow {
  readonly row: number;
  readonly last: number;
  readonly token: string;
  readonly value: Known;
  readonly exact: boolean;
  readonly key: number | null;
  readonly key_token: string | null;
  readonly weight: Known;
}

export interface Finding {
  readonly label: string;
  readonly stack: string;
  readonly layer: number;
  readonly head: number;
  readonly row: number | null;
  readonly surprise: Known;
  readonly non_sink: Known;
  readonly pattern: string;
  readonly score: Known;
  readonly chance: Known;
  readonly threshold: Known;
  readonly conditional: Known;
  readonly holds: boolean;
  readonly why_not: string;
  /** Whether the recording tells if the label holds. */
  readonly known: boolean;
  /** Rows it was judged by, and how likely such a score is by chance, at most, by which test. */
  readonly n_rows: number;
  readonly p_value: Known;
  readonly test: string;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly causal: Known;
  readonly rows: readonly EvidenceRow[];
  readonly counter: EvidenceRow | null;
  readonly sentence: string;
}

export interface Report {
  readonly file: string;
  readonly model: string;
  readonly prompt: number;
  readonly title: string;
  readonly tokens: number;
  readonly doubts: readonly string[];
  readonly caveat: string;
  readonly causal_check: string;
  readonly counts: Readonly<Record<string, number>>;
  readonly unknown: Readonly<Record<string, string>>;
  readonly labels: number;
  readonly knocked: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly findings: readonly Finding[];
  readonly heads: readonly Readonly<Record<string, unknown>>[];
}

/** What one head's small picture is made of. */
export const NO_PICTURE = 0;
export const WHOLE_PICTURE = 1;
/** Of some rows, spread evenly: nothing was stored, and all rows would take too long. */
export const SAMPLED_PICTURE = 2;

/** Small pictures of every head of a stack, in the order of its grid: layer by layer. */
export interface Thumbnails {
  readonly layers: number;
  readonly heads: number;
  /** Pixels a side; queries × keys are stretched to a square. */
  readonly side: number;
  /** One for each head: NO_PICTURE, WHOLE_PICTURE or SAMPLED_PICTURE. */
  readonly kinds: Uint8Array;
  /** side × side codes for each head, as a tile has them: 0 hidden, 1 … 255 on the scale. */
  readonly codes: Uint8Array;
}

export interface HeadDifference {
  readonly label: string;
  /** Jensen–Shannon, 0 … 1; null where the two cannot be compared. */
  readonly distance: Known;
  readonly how: "rows" | "profiles" | "nothing";
  readonly rows: number;
  readonly worst_rows: readonly [a: number, b: number] | null;
  readonly worst_distance: Known;
  readonly worst_token: string | null;
  readonly profiles: Readonly<Record<string, Known>>;
}

export interface Compared {
  readonly recording: number;
  readonly prompt: number;
  readonly name: string;
  readonly model: string;
  readonly title: string;
}

/** Every head that two prompts both have, the farthest apart first. */
export interface Comparison {
  readonly a: Compared;
  readonly b: Compared;
  /** How tokens were matched, in words. */
  readonly alignment: string;
  readonly largest: number;
  /** What must be known before the numbers are read. */
  readonly doubts: readonly string[];
  readonly heads: readonly HeadDifference[];
  readonly only_a: readonly string[];
  readonly only_b: readonly string[];
}
