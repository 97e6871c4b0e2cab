import type { Answers, Listing } from "./answers";
import type { Cells, Overlay, OverlayAt, Thumbnails, Tile } from "./binary";
import { type Ask, type Asked, type Source, SourceError, type Where } from "./source";
import { type Snapshot, type Strips, snapshotOf, stripsOf } from "./training";

const TOKEN_HEADER = "x-regard-token";

type Parameters = Readonly<Record<string, string | number>>;

/** Asks over HTTP; the token goes in a header, never into an address. */
export function askServer(token: string): Ask {
  return async (address, stop) => {
    try {
      return await fetch(address, { headers: { [TOKEN_HEADER]: token }, signal: stop ?? null });
    } catch (error) {
      if (stop?.aborted) throw error;
      throw new SourceError("The server does not answer; was it ended with Ctrl-C?", 0);
    }
  };
}

/** Asks whoever has the recording: the local server, or a notebook's kernel. */
export class ServerSource implements Source {
  readonly kind: "server" | "kernel";
  readonly #get: Ask;

  constructor(ask: Ask, kind: "server" | "kernel" = "server") {
    this.#get = ask;
    this.kind = kind;
  }

  recordings(): Promise<readonly Listing[]> {
    return this.#json("/api/recordings", {});
  }

  ask<N extends keyof Answers>(name: N, asked: Asked<N>, stop?: AbortSignal): Promise<Answers[N]> {
    return this.#json(...this.#about(asked, name, {}), stop);
  }

  async thumbnails(where: Where, stack: string, stop?: AbortSignal): Promise<Thumbnails> {
    const answer = await this.#ask(...this.#about(where, "thumbnails", { stack }), stop);
    const [layers, heads, side] = ["layers", "heads", "side"].map((name) =>
      Number(answer.headers.get(`x-regard-${name}`) ?? 0),
    ) as [number, number, number];
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const count = layers * heads;
    return { layers, heads, side, kinds: bytes.subarray(0, count), codes: bytes.subarray(count) };
  }

  async weights(
    where: Where,
    label: string,
    row: number,
    stop?: AbortSignal,
  ): Promise<Float32Array> {
    const asked = this.#about(where, "weights", { head: label, row });
    return new Float32Array(await (await this.#ask(...asked, stop)).arrayBuffer());
  }

  async cells(
    where: Where,
    label: string,
    rows: readonly [number, number],
    keys: readonly [number, number],
    stop?: AbortSignal,
  ): Promise<Cells> {
    const asked = this.#about(where, "cells", {
      head: label,
      row: rows[0],
      row_count: rows[1],
      key: keys[0],
      key_count: keys[1],
    });
    const numbers = new Float32Array(await (await this.#ask(...asked, stop)).arrayBuffer());
    const area = rows[1] * keys[1];
    return { weights: numbers.subarray(0, area), visible: numbers.subarray(area) };
  }

  async tile(
    where: Where,
    label: string,
    at: { level: number; y: number; x: number; how: string },
    stop?: AbortSignal,
  ): Promise<Tile> {
    const answer = await this.#ask(...this.#about(where, "tile", { head: label, ...at }), stop);
    const nan = Number(answer.headers.get("x-regard-nan") ?? 0);
    return { codes: new Uint8Array(await answer.arrayBuffer()), nan };
  }

  async overlays(
    where: Where,
    labels: readonly string[],
    at: OverlayAt,
    stop?: AbortSignal,
  ): Promise<readonly Overlay[]> {
    const asked = this.#about(where, "overlay", {
      heads: labels.join(","),
      [at.side]: at.position,
    });
    const numbers = new Float32Array(await (await this.#ask(...asked, stop)).arrayBuffer());
    const size = numbers.length / (2 * labels.length);
    const part = (n: number) => numbers.subarray(n * size, (n + 1) * size);
    return labels.map((_, n) => ({ weights: part(2 * n), times: part(2 * n + 1) }));
  }

  async picture(where: Where, number: number, stop?: AbortSignal): Promise<Blob> {
    return (await this.#ask(...this.#about(where, "picture", { number }), stop)).blob();
  }

  async strips(where: Where, statistic: string, bins: number, stop?: AbortSignal): Promise<Strips> {
    const answer = await this.#ask(...this.#about(where, "strips", { statistic, bins }), stop);
    return stripsOf(statistic, await answer.arrayBuffer(), sizesOf(answer));
  }

  async snapshot(where: Where, label: string, step: number, stop?: AbortSignal): Promise<Snapshot> {
    const asked = this.#about(where, "snapshot", { head: label, step });
    const answer = await this.#ask(...asked, stop);
    return snapshotOf(await answer.arrayBuffer(), sizesOf(answer));
  }

  async page(where: Where, label: string): Promise<Blob> {
    return (await this.#ask(...this.#about(where, "page", { head: label }))).blob();
  }

  #about({ recording, ...asked }: Where, name: string, more: Parameters): [string, Parameters] {
    return [`/api/${recording}/${name}`, { ...asked, ...more }];
  }

  async #json<T>(path: string, parameters: Parameters, stop?: AbortSignal): Promise<T> {
    return (await (await this.#ask(path, parameters, stop)).json()) as T;
  }

  async #ask(path: string, parameters: Parameters, stop?: AbortSignal): Promise<Response> {
    const texts = Object.entries(parameters).map(([name, value]) => [name, String(value)]);
    const query = new URLSearchParams(texts).toString();
    const answer = await this.#get(query ? `${path}?${query}` : path, stop);
    if (!answer.ok) throw new SourceError(await reason(answer), answer.status);
    return answer;
  }
}

function sizesOf(answer: Response): (name: string) => number {
  return (name) => Number(answer.headers.get(`x-regard-${name}`) ?? 0);
}

async function reason(answer: Response): Promise<string> {
  const text = await answer.text();
  try {
    return (JSON.parse(text) as { error: string }).error;
  } catch {
    return text || `the server answered ${answer.status}`;
  }
}
