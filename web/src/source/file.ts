import type { Answers, HeadShort, How, Listing, Tokens } from "./answers";
import {
  type Cells,
  NO_PICTURE,
  type Overlay,
  type OverlayAt,
  type Thumbnails,
  type Tile,
  WHOLE_PICTURE,
} from "./binary";
import type { CarriedFacts, CarriedHead, CarriedTraining } from "./carried";
import { inflate, inflateJson } from "./codec";
import { HeadInFile } from "./head";
import { type Asked, type Source, SourceError, type Where } from "./source";
import { type Snapshot, type Strips, stripsOf } from "./training";

const SIDE = 32; // pixels of a small picture
const NO_TRAINING = "This file carries no training run; see it with `regard view run.regard`.";
const NO_TEXT = "This file carries a training run and no text.";
const NO_OTHER =
  "This file carries one recording; compare two with `regard view a.regard b.regard`.";
const NO_ROLLOUT =
  "Rollout needs every weight of every layer, which this file does not carry; see it with `regard view run.regard`.";
const FACTS = 0; // the blob that holds everything but the heads' numbers

/** Answers that are worked out; all others lie in the facts as they are. */
type Worked = {
  readonly [N in keyof Answers]?: (asked: Asked<N>) => Promise<Answers[N]>;
};

/** Answers from what the page carries; a head is unpacked when it is first asked for. */
export class FileSource implements Source {
  readonly kind = "file";
  readonly #blob: (number: number) => string;
  readonly #heads = new Map<string, Promise<HeadInFile>>();
  #facts: Promise<CarriedFacts> | undefined;
  readonly #worked: Worked = {
    head: async (asked) => (await this.#head(asked, asked.head)).facts(),
    row: async (asked) => (await this.#head(asked, asked.head)).row(asked.row, asked.top),
    tokens: async (asked) => tokensOf(await this.#at(asked), asked),
    training: async (asked) => (await this.#run(asked)).facts,
    compare: () => Promise.reject(new SourceError(NO_OTHER, 409)),
    rollout: () => Promise.reject(new SourceError(NO_ROLLOUT, 409)),
  };

  /** `blob` gives the base64 text of a blob. */
  constructor(blob: (number: number) => string) {
    this.#blob = blob;
  }

  async recordings(): Promise<readonly Listing[]> {
    return [(await this.#all()).listing];
  }

  async ask<N extends keyof Answers>(name: N, asked: Asked<N>): Promise<Answers[N]> {
    const worked: Worked[N] = this.#worked[name];
    if (worked) return worked(asked);
    const facts = (await this.#at(asked)) as unknown as Partial<Answers>;
    const own = facts[name];
    if (!own) throw new SourceError(NO_TEXT, 404);
    return own;
  }

  async thumbnails(where: Where, stack: string, stop?: AbortSignal): Promise<Thumbnails> {
    const facts = await this.#at(where);
    const of = facts.overview.stacks.find((one) => one.name === stack);
    if (!of) throw new SourceError(`There is no stack "${stack}" in this file.`, 404);
    const heads = facts.overview.heads.filter((one) => one.stack === stack);
    const side = Math.min(SIDE, Math.max(1, ...heads.flatMap((one) => one.shape)));
    const kinds = new Uint8Array(of.layers * of.heads).fill(NO_PICTURE);
    const codes = new Uint8Array(kinds.length * side * side).fill(facts.overview.scale.hidden);
    const draw = async (one: HeadShort) => {
      const picture = (await this.#head(where, one.label)).picture(side);
      stop?.throwIfAborted();
      if (!picture) return;
      const place = one.layer * of.heads + one.head;
      kinds[place] = WHOLE_PICTURE;
      codes.set(picture, place * side * side);
    };
    await Promise.all(heads.map(draw));
    return { layers: of.layers, heads: of.heads, side, kinds, codes };
  }

  async weights(where: Where, label: string, row: number): Promise<Float32Array> {
    return (await this.#head(where, label)).weights(row);
  }

  async cells(
    where: Where,
    label: string,
    rows: readonly [number, number],
    keys: readonly [number, number],
  ): Promise<Cells> {
    return (await this.#head(where, label)).cells(rows, keys);
  }

  async tile(
    where: Where,
    label: string,
    at: { readonly level: number; readonly y: number; readonly x: number; readonly how: How },
  ): Promise<Tile> {
    return (await this.#head(where, label)).tile(at);
  }

  async overlays(
    where: Where,
    labels: readonly string[],
    at: OverlayAt,
  ): Promise<readonly Overlay[]> {
    return Promise.all(labels.map(async (label) => (await this.#head(where, label)).overlay(at)));
  }

  async picture(where: Where, number: number): Promise<Blob> {
    const { pictures, sight } = await this.#at(where);
    const blob = pictures[number];
    const type = sight.pictures[number]?.type;
    if (blob === null || blob === undefined || !type) {
      throw new SourceError(`Picture ${number} is not in this file.`, 404);
    }
    return new Blob([await inflate(this.#blob(blob))], { type });
  }

  /** In the bins that the file has, however many are asked for. */
  async strips(where: Where, statistic: string): Promise<Strips> {
    const own = (await this.#run(where)).strips[statistic];
    if (!own) throw new SourceError(`There is no statistic "${statistic}" in this file.`, 404);
    const { buffer } = await inflate(this.#blob(own.blob));
    return stripsOf(statistic, buffer, (name) => own.sizes[name] ?? 0);
  }

  async snapshot(where: Where, label: string, step: number): Promise<Snapshot> {
    const own = (await this.#run(where)).maps[label];
    const at = own?.stored.findLastIndex((one) => one.step <= step) ?? -1;
    const found = own?.stored[at];
    if (!own || !found) {
      throw new SourceError(`No map of ${label} up to step ${step} is in this file.`, 404);
    }
    const before = own.stored.slice(0, at).reduce((sum, one) => sum + one.rows * one.columns, 0);
    const numbers = new Float32Array((await inflate(this.#blob(own.blob))).buffer);
    return { ...found, weights: numbers.subarray(before, before + found.rows * found.columns) };
  }

  /** The file itself, as it was before anything was drawn into it. */
  async page(): Promise<Blob> {
    const copy = document.documentElement.cloneNode(true) as HTMLElement;
    copy.querySelector("#page")?.replaceChildren();
    for (const name of Object.keys(copy.dataset)) delete copy.dataset[name];
    return new Blob([`<!doctype html>\n${copy.outerHTML}\n`], { type: "text/html" });
  }

  #all(): Promise<CarriedFacts> {
    this.#facts ??= inflateJson<CarriedFacts>(this.#blob(FACTS));
    return this.#facts;
  }

  async #at(where: Where): Promise<CarriedFacts> {
    if (where.recording !== 0 || where.prompt !== 0) {
      throw new SourceError("This file carries one prompt of one recording.", 404);
    }
    return this.#all();
  }

  async #run(where: Where): Promise<CarriedTraining> {
    const { training } = await this.#at(where);
    if (!training) throw new SourceError(NO_TRAINING, 409);
    return training;
  }

  async #head(where: Where, label: string): Promise<HeadInFile> {
    const facts = await this.#at(where);
    const head = facts.heads[label];
    if (!head) throw new SourceError(notCarried(facts, label), 404);
    let found = this.#heads.get(label);
    if (!found) {
      found = this.#unpacked(facts, head);
      this.#heads.set(label, found);
    }
    return found;
  }

  async #unpacked(facts: CarriedFacts, head: CarriedHead): Promise<HeadInFile> {
    return new HeadInFile(facts, head, await inflate(this.#blob(head.carried.blob)));
  }
}

function tokensOf({ tokens }: CarriedFacts, { stream, start, count }: Asked<"tokens">): Tokens {
  const all = stream ? tokens[stream] : Object.values(tokens)[0];
  if (!all) throw new SourceError(`There are no tokens "${stream}" in this file.`, 404);
  const end = start + count;
  return {
    ...all,
    start,
    tokens: all.tokens.slice(start, end),
    ids: all.ids.slice(start, end),
    flags: all.flags.slice(start, end),
  };
}

function notCarried(facts: CarriedFacts, label: string): string {
  const names = Object.keys(facts.heads);
  const some = names.length > 12 ? `${names.slice(0, 12).join(", ")} …` : names.join(", ");
  return `${label} is not in this file, which carries ${some}; the recording may have it.`;
}
