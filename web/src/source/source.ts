import type { Answers, How, Listing } from "./answers";
import type { Cells, Overlay, OverlayAt, Thumbnails, Tile } from "./binary";
import type { Snapshot, Strips } from "./training";

/** Which prompt of which recording. */
export interface Where {
  readonly recording: number;
  readonly prompt: number;
}

/** What some questions say besides the prompt they are about. */
interface More {
  readonly compare: { readonly other: number; readonly other_prompt: number };
  readonly tokens: { readonly stream: string; readonly start: number; readonly count: number };
  readonly head: { readonly head: string };
  readonly row: { readonly head: string; readonly row: number; readonly top: number };
  readonly rollout: { readonly head: string; readonly query: number };
}

/** A question of that name: about which prompt, and what else it says. */
export type Asked<N> = Where & (N extends keyof More ? More[N] : unknown);

/** An address of the server, such as "/api/0/overview", to what is answered there. */
export type Ask = (address: string, stop?: AbortSignal) => Promise<Response>;

/**
 * Where answers come from: the local server, a notebook's kernel, or the file that this page is. All
 * answer the same questions; a question that cannot be answered rejects with a `SourceError` of one
 * sentence.
 */
export interface Source {
  readonly kind: "server" | "kernel" | "file";
  recordings(): Promise<readonly Listing[]>;
  /** The answer of that name; see `Answers`. */
  ask<N extends keyof Answers>(name: N, asked: Asked<N>, stop?: AbortSignal): Promise<Answers[N]>;
  /** Small pictures of all heads of a stack. */
  thumbnails(where: Where, stack: string, stop?: AbortSignal): Promise<Thumbnails>;
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
  /** What a query looks at, or who looks at a key; one for each of the heads. */
  overlays(
    where: Where,
    labels: readonly string[],
    at: OverlayAt,
    stop?: AbortSignal,
  ): Promise<readonly Overlay[]>;
  /** A picture that the prompt was read from, as it is encoded. */
  picture(where: Where, number: number, stop?: AbortSignal): Promise<Blob>;
  /** One statistic of every head over the steps, in at most so many bins. */
  strips(where: Where, statistic: string, bins: number, stop?: AbortSignal): Promise<Strips>;
  /** The map that was stored of a head at a step, or last before it. */
  snapshot(where: Where, label: string, step: number, stop?: AbortSignal): Promise<Snapshot>;
  /** One self-contained page of a head: the server makes it, or it is this page. */
  page(where: Where, label: string): Promise<Blob>;
}

/** Why there is no answer, in one sentence. `status` is HTTP's, 0 where nobody answered. */
export class SourceError extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.name = "SourceError";
    this.status = status;
  }

  /** Whether the server, or the kernel, itself is gone, so that asking again later may help. */
  get isGone(): boolean {
    return this.status === 0;
  }
}
