import { signal } from "@preact/signals";
import type { Block, PlayServer, Reading, Stack } from "./api";
import type { Chosen, Mode } from "./place";

const WHOLE = 64; // tokens up to which every weight is fetched at once
const KEPT = 96; // rows of longer prompts

export interface Heavy {
  readonly key: number;
  readonly weight: number;
}

/** The weights of one reading: all of them where the prompt is short, else row by row. */
export class Weights {
  /** Counts what has arrived. */
  readonly arrived = signal(0);
  readonly #server: PlayServer;
  readonly #reading: Reading;
  readonly #blocks = new Map<string, Block>();
  readonly #rows = new Map<string, Float32Array>();
  readonly #asked = new Set<string>();
  #latest: AbortController | null = null;

  constructor(server: PlayServer, reading: Reading) {
    this.#server = server;
    this.#reading = reading;
  }

  isShort(stack: Stack): boolean {
    return stack.rows <= WHOLE && stack.keys <= WHOLE;
  }

  /** Every weight of a stack, where the prompt is short. */
  async whole(stack: Stack): Promise<Block | null> {
    const kept = this.#blocks.get(stack.name);
    if (kept || !this.isShort(stack)) return kept ?? null;
    const asked = { id: this.#reading.id, stack: stack.name, row: 0, row_count: stack.rows };
    const block = await this.#server.weights(asked);
    this.#blocks.set(stack.name, block);
    this.arrived.value += 1;
    return block;
  }

  block(stack: string): Block | null {
    return this.#blocks.get(stack) ?? null;
  }

  /** One row as it is looked at; undefined until it is here, and then `arrived` counts. */
  row(stack: Stack, row: number, how: Mode, which: Chosen): Float32Array | undefined {
    this.arrived.value; // whoever shows it is drawn again
    if (row < 0 || row >= stack.rows) return undefined;
    const layer = Math.min(which.layer, stack.layers - 1);
    const head = Math.min(which.head, stack.heads - 1);
    const block = this.#blocks.get(stack.name);
    if (block && how === "head") return slice(block, layer, head, row);
    if (block && how === "layer") return meanOf(block, layer, row);
    const name = `${stack.name}/${row}/${how}/${layer}/${how === "head" ? head : ""}`;
    const kept = this.#rows.get(name);
    if (!kept && !this.#asked.has(name)) void this.#fetch(name, stack, row, how, layer, head);
    return kept;
  }

  async #fetch(
    name: string,
    stack: Stack,
    row: number,
    how: Mode,
    layer: number,
    head: number,
  ): Promise<void> {
    this.#latest?.abort(); // a pointer that moves on wants the newest alone
    const control = new AbortController();
    this.#latest = control;
    this.#asked.add(name);
    try {
      this.#rows.set(name, await this.#ask(stack, row, how, layer, head, control.signal));
      for (const old of this.#rows.keys()) {
        if (this.#rows.size <= KEPT) break;
        this.#rows.delete(old);
      }
      this.arrived.value += 1;
    } catch {
      // given up, or the server is gone: the prompt's own notice says so
    } finally {
      this.#asked.delete(name);
    }
  }

  async #ask(
    stack: Stack,
    row: number,
    how: Mode,
    layer: number,
    head: number,
    stop: AbortSignal,
  ): Promise<Float32Array> {
    const { id } = this.#reading;
    if (how === "rollout") return this.#server.rollout(id, stack.name, row, stop);
    const asked = { id, stack: stack.name, row, layer };
    const block = await this.#server.weights(how === "head" ? { ...asked, head } : asked, stop);
    return how === "head" ? slice(block, 0, 0, 0) : meanOf(block, 0, 0);
  }
}

function slice(block: Block, layer: number, head: number, row: number): Float32Array {
  const start = ((layer * block.heads + head) * block.rows + row) * block.keys;
  return block.numbers.subarray(start, start + block.keys);
}

function meanOf(block: Block, layer: number, row: number): Float32Array {
  const mean = new Float32Array(block.keys);
  for (let head = 0; head < block.heads; head += 1) {
    const own = slice(block, layer, head, row);
    for (let key = 0; key < mean.length; key += 1) {
      mean[key] = (mean[key] ?? 0) + (own[key] ?? 0) / block.heads;
    }
  }
  return mean;
}

/** The heaviest keys of a row, heaviest first. */
export function heaviest(row: Float32Array, most: number, least = 0.004): Heavy[] {
  const found: Heavy[] = [];
  row.forEach((weight, key) => {
    if (weight < least) return;
    if (found.length === most && weight <= (found[most - 1]?.weight ?? 0)) return;
    let at = found.length;
    while (at > 0 && (found[at - 1]?.weight ?? 0) < weight) at -= 1;
    found.splice(at, 0, { key, weight });
    if (found.length > most) found.pop();
  });
  return found;
}

/** The head in which the last word reads one other word most; the first word left out, since most
 * heads rest on it. */
export function striking(block: Block): { layer: number; head: number } {
  let best = { layer: 0, head: 0, weight: -1 };
  const row = block.rows - 1;
  for (let layer = 0; layer < block.layers; layer += 1) {
    for (let head = 0; head < block.heads; head += 1) {
      const own = slice(block, layer, head, row);
      for (let key = 1; key < row - 1; key += 1) {
        const weight = own[key] ?? 0;
        if (weight > best.weight) best = { layer, head, weight };
      }
    }
  }
  return { layer: best.layer, head: best.head };
}
