import type {
  Comparison,
  HeadFacts,
  How,
  Listing,
  Overview,
  Report,
  RowFacts,
  Tokens,
  TrainingFacts,
} from "./answers";
import type { Cells, Thumbnails, Tile } from "./binary";
import type { Snapshot, Strips } from "./training";

/** Which prompt of which recording. */
export interface Where {
  readonly recording: number;
  readonly prompt: number;
}

/**
 * Where answers come from: the local server, or the file that this page is. Both answer the same
 * questions; a question that cannot be answered rejects with a `SourceError` of one sentence.
 */
export interface Source {
  readonly kind: "server" | "file";
  recordings(): Promise<readonly Listing[]>;
  overview(where: Where): Promise<Overview>;
  findings(where: Where): Promise<Report>;
  /** Small pictures of all heads of a stack. */
  thumbnails(where: Where, stack: string, stop?: AbortSignal): Promise<Thumbnails>;
  /** Head by head against another prompt, of this or of another recording. */
  compare(where: Where, other: Where, stop?: AbortSignal): Promise<Comparison>;
  tokens(where: Where, stream: string, start: number, count: number): Promise<Tokens>;
  head(where: Where, label: string): Promise<HeadFacts>;
  row(where: Where, label: string, row: number, top: number): Promise<RowFacts>;
  /** A whole row of weights, NaN where it may not look, ∞ where one is no number. */
  weights(where: Where, label: string, row: number, stop?: AbortSignal): Promise<Float32Array>;
  cells(
    where: Where,
    label: string,
    rows: readonly [start: number, count: number],
    keys: readonly [start: number, count: number],
    stop?: AbortSignal,
  ): Promise<Cells>;
  tile(
    where: Where,
    label: string,
    at: { readonly level: number; readonly y: number; readonly x: number; readonly how: How },
    stop?: AbortSignal,
  ): Promise<Tile>;
  /** What a monitor wrote down of a training run. */
  training(where: Where): Promise<TrainingFacts>;
  /** One statistic of every head over the steps, in at most so many bins. */
  strips(where: Where, statistic: string, bins: number, stop?: AbortSignal): Promise<Strips>;
  /** The map that was stored of a head at a step, or last before it. */
  snapshot(where: Where, label: string, step: number, stop?: AbortSignal): Promise<Snapshot>;
  /** One self-contained page of a head, where the source can make one. */
  page?(where: Where, label: string): Promise<Blob>;
}

/** Why there is no answer, in one sentence. `status` is HTTP's, 0 where nobody answered. */
export class SourceError extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.name = "SourceError";
    this.status = status;
  }

  /** Whether the server itself is gone, so that asking again later may help. */
  get isGone(): boolean {
    return this.status === 0;
  }
}
