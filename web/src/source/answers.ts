// Written by tools/answers_types.py out of views/schema.py and viewer/questions.py.

/** null where a number is not known or not finite */
export type Known = number | null;

/** as a file says them */
export type Facts = Readonly<Record<string, unknown>>;

/** layers × heads */
export type Grid = readonly (readonly Known[])[];

export type How = "mean" | "max";

/** What could not be read. */
export interface Damage {
  readonly offset: number;
  readonly reason: string;
}

/** Which recording it is, and how it is. */
export interface Standing {
  readonly recording: number;
  readonly name: string;
  readonly revision: number;
  readonly live: boolean;
  readonly damage: readonly Damage[];
  readonly model: Facts;
}

/** A recording in a list of them. */
export interface Listing extends Standing {
  readonly prompts: number;
}

/** A token that the model might have said next. */
export interface Guess {
  readonly token: string;
  readonly probability: Known;
}

/** One text that went through the model. */
export interface PromptFacts {
  readonly title: string;
  readonly tokens: number;
  readonly generated: number;
  readonly finished: boolean;
  readonly next: readonly Guess[];
  /** Tokens of each stream; null where the file is damaged there. */
  readonly streams: Readonly<Record<string, number | null>>;
}

/** What the codes of a tile stand for. */
export interface Scale {
  readonly name: string;
  readonly low: number;
  readonly high: number;
  /** What the last colour stands for, where that is not `high`: no row has so many keys. */
  readonly top?: number;
  readonly log: boolean;
  readonly hidden: number;
  readonly first: number;
  readonly last: number;
}

/** One number a head. */
export interface StatisticFacts {
  readonly title: string;
  readonly words: string;
  /** one: a share 0–1; entropy: nats; spread: from the smallest to the largest there is. */
  readonly span: "one" | "entropy" | "spread";
}

/** Layers of one kind. */
export interface Stack {
  /** "" for a model with one stack; encoder, decoder, cross otherwise. */
  readonly name: string;
  readonly layers: number;
  readonly heads: number;
  readonly grids: Readonly<Record<string, Grid | null>>;
}

/** One head, in a list of them. */
export interface HeadShort {
  readonly label: string;
  readonly stack: string;
  readonly layer: number;
  readonly head: number;
  /** Queries and keys. */
  readonly shape: readonly [number, number];
  readonly kind: "self" | "cross";
  /** First row, and the one after the last. */
  readonly recorded: readonly [number, number];
  readonly exact: boolean;
}

/** All heads of a prompt. */
export interface Heads {
  readonly stacks: readonly Stack[];
  readonly heads: readonly HeadShort[];
  /** What of it could not be read. */
  readonly problems: readonly string[];
  /** By statistic: why recorded heads lack the number. */
  readonly why_unknown: Readonly<Record<string, string>>;
}

/** The first look at a recording. */
export interface Overview extends Standing, Heads {
  readonly made: Facts;
  readonly plan: Facts;
  readonly check: Facts;
  readonly prompts: readonly PromptFacts[];
  readonly prompt: number;
  readonly statistics: Readonly<Record<string, StatisticFacts>>;
  /** By which heads are told apart, where nobody chose another. */
  readonly statistic: string;
  /** The head that lies farthest from its layer by it. */
  readonly opens_on: string | null;
  readonly glossary: Readonly<Record<string, string>>;
  readonly scale: Scale;
  readonly caveat: string;
  /** The first findings; null where they are asked for. */
  readonly stands_out: readonly Finding[] | null;
  /** Null where it is asked for, or where none was monitored. */
  readonly training: TrainingFacts | null;
}

/** A page of a stream. */
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

/** Curves beside a map. */
export interface Tracks {
  readonly received: Track | null;
  readonly distance: Track | null;
  readonly entropy: Track | null;
}

/** Which tokens stand on the sides of a map. */
export interface Streams {
  readonly queries: string;
  readonly keys: string;
}

/** Tokens per pixel, finest first; empty where nothing can be drawn. */
export interface Levels {
  readonly mean: readonly number[];
  readonly max: readonly number[];
}

/** A map in cells, from the first recorded row on; null where it is masked. */
export interface Cells {
  readonly cell: number;
  readonly how: How;
  readonly first_row: number;
  readonly weights: Grid;
  readonly times_uniform: Grid;
}

/** Keys that are looked at. */
export interface Keys {
  /** The first, and the one after the last. */
  readonly keys: readonly [number, number];
  /** Of a single key. */
  readonly token: string | null;
  /** Of all attention. */
  readonly share: number;
}

/** One head. */
export interface HeadFacts extends HeadShort {
  readonly prompt: number;
  readonly revision: number;
  readonly place: string;
  readonly why_not: string | null;
  /** Those that can be read, where a file carries only some. */
  readonly rows?: readonly number[];
  readonly streams: Streams;
  readonly statistics: Readonly<Record<string, Known>>;
  readonly stored: Readonly<Record<string, string | null>>;
  readonly tile: number;
  readonly levels: Levels;
  /** Whether its mask is known for every row. */
  readonly sight: boolean;
  readonly scale: Scale;
  readonly tracks: Tracks;
  readonly problems: readonly string[];
  readonly caveat: string;
  /** Where one was asked for. */
  readonly map?: Cells;
  /** Likewise; the most first. */
  readonly looked_at?: readonly Keys[];
}

/** A key and its weight. */
export interface Key {
  readonly key: number;
  readonly token: string | null;
  readonly weight: Known;
}

/** One row of a head. */
export interface RowFacts {
  readonly head: string;
  readonly prompt: number;
  readonly row: number;
  readonly token: string | null;
  readonly visible: number;
  readonly keys: readonly [number, number];
  readonly top: readonly Key[];
  readonly caveat: string;
  readonly exact: boolean;
  readonly why_not: string | null;
}

/** A part of a head's matrix; null where it is masked. */
export interface Region {
  readonly head: string;
  readonly prompt: number;
  readonly rows: readonly [number, number];
  readonly keys: readonly [number, number];
  readonly query_tokens: readonly string[] | null;
  readonly key_tokens: readonly string[] | null;
  readonly weights: Grid;
  readonly caveat: string;
}

/** A row, and how far it shows a pattern. */
export interface EvidenceRow {
  readonly row: number;
  readonly last: number;
  readonly token: string | null;
  readonly value: Known;
  readonly exact: boolean;
  readonly key: number | null;
  readonly key_token: string | null;
  readonly weight: Known;
}

/** A label of a head. */
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
  /** Rows it was judged by. */
  readonly n_rows: number;
  /** How likely such a score is by chance, at most. */
  readonly p_value: Known;
  /** … by which test. */
  readonly test: string;
  readonly detail: Facts;
  readonly causal: Known;
  readonly rows: readonly EvidenceRow[];
  readonly counter: EvidenceRow | null;
  readonly sentence: string;
}

/** What was looked for in one head. */
export interface Studied {
  readonly label: string;
  readonly stack: string;
  readonly layer: number;
  readonly head: number;
  readonly labels: readonly string[];
  readonly not_known: Readonly<Record<string, string>>;
  readonly sink: Known;
  readonly non_sink: Known;
  readonly scores: Readonly<Record<string, Known>>;
}

/** What stands out in a prompt, most surprising first. */
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
  /** So many of the findings stand on an overview. */
  readonly stand_out: number;
  /** Why no head stands out; "" where one does. */
  readonly why_nobody: string;
  readonly knocked: Readonly<Record<string, Facts>>;
  readonly findings: readonly Finding[];
  readonly heads: readonly Studied[];
}

/** A head that lies apart from its layer, over many documents. */
export interface Outlier {
  readonly label: string;
  readonly statistic: string;
  readonly value: number;
  readonly median: number;
  readonly deviations: number;
  readonly sentence: string;
}

/** One number a head over many documents, and over how many rows it was taken. */
export interface ManyStatistic {
  readonly meaning: string;
  readonly values: readonly Known[];
  readonly rows: readonly Known[];
}

/** Many documents at once. */
export interface Many {
  readonly folder: string;
  readonly model: Facts;
  readonly made: Facts;
  readonly files: readonly string[];
  readonly documents: number;
  readonly tokens: number;
  readonly heads: readonly string[];
  readonly statistics: Readonly<Record<string, ManyStatistic>>;
  readonly surprising: readonly Outlier[];
  readonly caveat: string;
}

/** How far a head is from the head of the same name. */
export interface HeadDifference {
  readonly label: string;
  /** Jensen–Shannon, 0 … 1; null where the two cannot be compared. */
  readonly distance: Known;
  readonly how: "rows" | "profiles" | "nothing";
  readonly rows: number;
  readonly worst_rows: readonly [number, number] | null;
  readonly worst_distance: Known;
  readonly worst_token: string | null;
  readonly profiles: Readonly<Record<string, Known>>;
}

/** One of two prompts. */
export interface Compared {
  readonly recording: number;
  readonly prompt: number;
  readonly name: string;
  readonly model: string;
  readonly title: string;
}

/** How many of the heads of a comparison are done; 0 of 0 where none is under way. */
export interface Progress {
  readonly done: number;
  readonly total: number;
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

/** Beyond it a head is in trouble. */
export interface Limit {
  readonly side: "above" | "below";
  readonly value: number;
  /** Not told by this run: what a monitor takes where nobody gives another. */
  readonly customary: boolean;
}

/** The least or the largest number of a statistic. */
export interface Extreme {
  readonly value: Known;
  readonly head: string;
  readonly step: number;
}

/** One statistic over the steps. */
export interface TrainedStatistic {
  readonly words: string;
  /** one: a share 0–1; decades: on a log scale; spread: from the smallest to the largest. */
  readonly span: "one" | "decades" | "spread";
  readonly limit: Limit | null;
  /** Of all heads, at the first step. */
  readonly median_first: Known;
  readonly median_last: Known;
  readonly least: Extreme;
  readonly largest: Extreme;
}

/** A head that stayed over a limit. */
export interface Alarm {
  readonly kind: string;
  readonly head: string;
  /** The first over the limit. */
  readonly step: number;
  readonly statistic: string;
  readonly value: Known;
  readonly threshold: Known;
}

/** The loss of a sampled step; null where it is NaN or infinite. */
export interface LossAt {
  readonly value: Known;
  readonly step: number;
}

/** The loss over the sampled steps. */
export interface Loss {
  /** Steps that have one. */
  readonly samples: number;
  readonly first: LossAt;
  readonly last: LossAt;
  /** Of those that are finite; null where none is. */
  readonly least: LossAt | null;
  readonly largest: LossAt | null;
  /** How many are NaN or infinite. */
  readonly not_finite: number;
  /** The first step of these. */
  readonly first_not_finite: number | null;
}

/** A run that was monitored. */
export interface TrainingFacts {
  readonly recording: number;
  readonly revision: number;
  /** How many steps were sampled. */
  readonly samples: number;
  /** The first and the last that was; null where none was. */
  readonly steps: readonly [number, number] | null;
  /** Layers, those of all stacks one after another. */
  readonly places: readonly string[];
  /** Of each place. */
  readonly heads: readonly number[];
  readonly statistics: Readonly<Record<string, TrainedStatistic>>;
  /** Null where the run gave none. */
  readonly loss: Loss | null;
  readonly alarms: readonly Alarm[];
  /** The steps of which each head has a stored map. */
  readonly maps: Readonly<Record<string, readonly number[]>>;
}

/** A picture that a prompt was read from, or a frame of a film. */
export interface PictureFacts {
  readonly width: number;
  readonly height: number;
  readonly type: "image/jpeg" | "image/png";
  readonly title: string;
  /** When it is seen, of a film's frame. */
  readonly seconds: number | null;
}

/** A grid of patches. Frame f lies on picture + f; on none where picture is −1. */
export interface GridPlace {
  /** Names of the tokens before the patches: class, registers. */
  readonly prefix: readonly string[];
  readonly frames: number;
  readonly height: number;
  readonly width: number;
  readonly picture: number;
  /** Rows and columns of windows; a head is about one of them. */
  readonly windows: readonly [number, number];
  /** By how many patches windows are moved down and right, cyclically. */
  readonly shift: number;
  /** Rows and columns on the picture; windows may reach beyond them. */
  readonly size: readonly [number, number];
  /** Whether windows are pictures of their own. */
  readonly apart: boolean;
  /** row · width + column of each patch of a frame; null: row by row. */
  readonly order: readonly number[] | null;
}

/** Positions that are moments of a sound. */
export interface Moments {
  /** Of each. */
  readonly seconds: number;
  /** When the first begins. */
  readonly first: number;
}

/** Positions of one kind, one behind the other. */
export interface AxisPart {
  readonly start: number;
  readonly count: number;
  readonly kind: "text" | "grid" | "frames" | "other";
  /** A word for each of them, where they have no place: query, latent. */
  readonly what: string;
  readonly grid: GridPlace | null;
  readonly moments: Moments | null;
}

/** An attention module: which of the axes its queries and keys are, and whose texts. */
export interface SightedPlace {
  readonly queries: number;
  readonly keys: number;
  readonly query_tokens: string;
  readonly key_tokens: string;
  /** All that the module has, windows counted as heads. */
  readonly heads: number;
}

/** What the positions of a prompt stand for, and the pictures it was read from. */
export interface Sight {
  readonly pictures: readonly PictureFacts[];
  readonly axes: readonly (readonly AxisPart[])[];
  readonly places: Readonly<Record<string, SightedPlace>>;
}

/** What a token of a stack's last layer is made of, through all of its layers. */
export interface Rollout {
  /** What it was followed from. */
  readonly start: string;
  readonly layers: number;
  /** One for each position; an even one is 1 over how many there are. */
  readonly shares: readonly Known[];
  /** Of all patches together. */
  readonly on_patches: Known;
  /** A sentence about rollout. */
  readonly what: string;
  /** One more where layers only look back; else empty. */
  readonly caution: string;
  /** Why there are no shares; empty where there are. */
  readonly why: string;
}

/** A word of a recorded sound, in seconds of its file. */
export interface HeardWord {
  /** Of its first token. */
  readonly position: number;
  readonly word: string;
  readonly start: number;
  readonly end: number;
}

/** A recorded sound; `seconds` without the silence that the model was given behind it. */
export interface Heard {
  /** Its spectrogram, which covers those seconds; −1 where there is none. */
  readonly picture: number;
  readonly start: number;
  readonly seconds: Known;
  /** null where they cannot be timed. */
  readonly words: readonly HeardWord[];
}

/** A part of an axis and the weight on it; of a grid on its patches, its prefix apart. */
export interface PartMass {
  readonly start: number;
  /** text, grid, frames or other. */
  readonly kind: string;
  readonly count: number;
  readonly mass: Known;
  readonly prefix: Known;
}

/** One position. */
export interface Spot {
  readonly position: number;
  readonly words: string;
  /** text, grid, frames or other. */
  readonly kind: string;
  /** Frame, row and column of a patch. */
  readonly cell: readonly [number, number, number] | null;
  /** −1 where it lies on none. */
  readonly picture: number;
  /** Left, top, width, height, as fractions. */
  readonly box: readonly [number, number, number, number] | null;
}

/** What is answered to each question. */
export interface Answers {
  readonly overview: Overview;
  readonly findings: Report;
  readonly compare: Comparison;
  readonly progress: Progress;
  readonly tokens: Tokens;
  readonly head: HeadFacts;
  readonly row: RowFacts;
  readonly training: TrainingFacts;
  readonly sight: Sight;
  readonly heard: Heard;
  readonly rollout: Rollout;
}
