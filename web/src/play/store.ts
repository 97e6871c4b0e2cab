import { batch, signal } from "@preact/signals";
import { SourceError } from "../source/source";
import type { Asked, Heads, PlayServer, Progress, Reading } from "./api";
import { Weights } from "./weights";

/** A state that was read, with what has been fetched of it. */
export interface Shown {
  readonly asked: Asked;
  readonly reading: Reading;
  readonly logits: Float32Array | null;
  readonly weights: Weights;
}

const KEPT = 64;
const CARDS = 10;
const AGAIN = 2000; // milliseconds until a server that is gone is asked again

/** One prompt on the screen. What was read stays here, so that going back is exact and at once. */
export class Readings {
  readonly shown = signal<Shown | null>(null);
  /** The same tokens with nothing switched off. */
  readonly whole = signal<Shown | null>(null);
  readonly progress = signal<Progress | null>(null);
  readonly busy = signal(false);
  readonly error = signal<SourceError | null>(null);
  readonly heads = signal<Heads | null>(null);
  readonly server: PlayServer;
  readonly #kept = new Map<string, Shown>();
  readonly #found = new Map<string, Heads>();
  #now: AbortController | null = null;
  #later: AbortController | null = null;

  constructor(server: PlayServer) {
    this.server = server;
  }

  /** Show a state. A newer question gives up an older one. */
  async ask(asked: Asked | null): Promise<void> {
    this.#now?.abort();
    this.#later?.abort(); // whoever switches something waits for that alone
    const control = new AbortController();
    this.#now = control;
    if (!asked) {
      batch(() => {
        this.shown.value = this.whole.value = this.heads.value = null;
        this.error.value = this.progress.value = null;
        this.busy.value = false;
      });
      return;
    }
    this.busy.value = true;
    try {
      const isWhole = !asked.heads.length && !asked.edges.length;
      const plain = { ...asked, heads: [], edges: [] };
      const before = isWhole ? null : await this.#read(plain, control.signal);
      const after = await this.#read(asked, control.signal);
      if (control.signal.aborted) return;
      batch(() => {
        this.whole.value = before ?? after;
        this.shown.value = after;
        this.error.value = null;
        this.heads.value = this.#found.get((before ?? after).reading.id) ?? this.heads.value;
      });
    } catch (error) {
      if (control.signal.aborted) return;
      if (!(error instanceof SourceError)) throw error;
      this.error.value = error;
      if (error.isGone) setTimeout(() => control.signal.aborted || void this.ask(asked), AGAIN);
    } finally {
      if (this.#now === control) {
        this.progress.value = null;
        this.busy.value = false;
      }
    }
  }

  /** What stands out, of what is shown without its switches. */
  async study(): Promise<void> {
    const shown = this.whole.peek();
    if (!shown) return;
    const { id } = shown.reading;
    try {
      const kept = this.#found.get(id);
      const heads = kept ?? (await this.server.heads(id));
      this.#found.set(id, heads);
      if (this.whole.peek() !== shown) return;
      this.heads.value = heads;
      if (heads.cards.some((card) => card.note)) return;
      const later = new AbortController();
      this.#later = later;
      const first = await this.server.effects(id, later.signal);
      const named = new Set(first.map((card) => card.label));
      const rest = heads.cards.filter((card) => !named.has(card.label));
      const both = { ...heads, cards: [...first, ...rest].slice(0, CARDS) };
      this.#found.set(id, both);
      if (this.whole.peek() === shown) this.heads.value = both;
    } catch (error) {
      if (this.#later?.signal.aborted) return;
      if (!(error instanceof SourceError)) throw error;
      if (this.whole.peek() === shown) this.error.value = error;
    }
  }

  async #read(asked: Asked, stop: AbortSignal): Promise<Shown> {
    const name = JSON.stringify(asked);
    const kept = this.#kept.get(name);
    if (kept) return kept;
    const reading = await this.server.read(
      asked,
      (one) => {
        const texts = one.texts ?? this.progress.peek()?.texts;
        this.progress.value = texts ? { ...one, texts } : one;
      },
      stop,
    );
    const weights = new Weights(this.server, reading);
    const first = reading.stacks[0];
    const both = [
      reading.next ? this.server.logits(reading.id, stop) : null,
      first ? weights.whole(first) : null, // with the words, so that arcs are there at once
    ] as const;
    const [logits] = await Promise.all(both);
    const made = { asked, reading, logits, weights };
    this.#kept.set(name, made);
    for (const old of this.#kept.keys()) {
      if (this.#kept.size <= KEPT) break;
      this.#kept.delete(old);
    }
    return made;
  }
}
