import { SourceError } from "../source/source";

// What the model's server is asked for. Every answer is about a state: the prompt, the tokens
// behind it, and what is switched off; the server keeps none of it for the page.

export interface Asked {
  readonly text: string;
  readonly pair: string;
  readonly sound: string;
  readonly more: readonly number[];
  readonly heads: readonly string[];
  /** Query, key and the head's label; "" for all heads. */
  readonly edges: readonly (readonly [number, number, string])[];
}

export interface Stack {
  readonly name: string;
  readonly layers: number;
  readonly heads: number;
  readonly rows: number;
  readonly keys: number;
  /** Keys that hold sound, where keys are its moments of 20 ms; else null, and they are words. */
  readonly frames: number | null;
}

export interface Likely {
  readonly id: number;
  readonly text: string;
}

export interface Reading {
  readonly id: string;
  readonly ids: readonly number[];
  readonly texts: readonly string[];
  readonly stacks: readonly Stack[];
  /** The tokens with the largest logits, largest first; null where none are written. */
  readonly next: readonly Likely[] | null;
  readonly similarity: number | null;
  /** Which sentence each token is of, where there are two. */
  readonly pair: readonly number[];
}

export interface Card {
  readonly label: string;
  readonly stack: string;
  readonly layer: number;
  readonly head: number;
  readonly name: string;
  readonly pattern: string;
  readonly sentence: string;
  readonly row: number | null;
  /** What its knock-out does, where it was measured: 0.77 → 0.56 */
  readonly note?: string;
}

export interface MapCell {
  readonly label: string;
  readonly stack: string;
  readonly layer: number;
  readonly head: number;
  readonly pattern: string;
  readonly score: number;
  readonly sink: number;
}

export interface Heads {
  readonly cards: readonly Card[];
  readonly map: readonly MapCell[];
  readonly names: Readonly<Record<string, string>>;
}

export interface ScriptStep {
  readonly do: string;
  readonly words: readonly string[];
}

export interface About {
  readonly model: string;
  readonly kind: "text" | "pair" | "sound";
  readonly positions: number | null;
  /** The head to begin with, where the model itself names one. */
  readonly start: string | null;
  readonly script: readonly ScriptStep[];
}

export interface Block {
  readonly layers: number;
  readonly heads: number;
  readonly rows: number;
  readonly keys: number;
  readonly numbers: Float32Array;
}

export interface WeightsAsked {
  readonly id: string;
  readonly stack: string;
  readonly row: number;
  readonly row_count?: number;
  readonly layer?: number;
  readonly head?: number;
}

/** A layer that is done; of a long prompt its words, and what the last one reads in this layer. */
export interface Progress {
  readonly done: number;
  readonly of: number;
  readonly texts?: readonly string[];
  readonly heavy?: readonly (readonly [number, number])[];
}

type Words = Readonly<Record<string, string | number | undefined>>;
type Line =
  | Progress
  | { readonly reading: Reading }
  | { readonly error: string; readonly status: number };

const GONE = "The server does not answer; start `regard play` again: what you typed is still here";

const OTHER =
  "The server was started again; open the address that it printed: what you typed is still here";
const FORGOTTEN = 410;
const STRANGER = 401;

export class PlayServer {
  #token: string;
  /** How each reading was asked for: a server that has forgotten one is asked again. */
  readonly #known = new Map<string, Asked>();

  constructor(token: string) {
    this.#token = token;
  }

  /** Of a server that was started again. */
  useToken(token: string): void {
    this.#token = token;
  }

  about(): Promise<About> {
    return this.#json("about", {});
  }

  /** The reading of a state; `advanced` follows the layers. */
  async read(
    asked: Asked,
    advanced: (progress: Progress) => void,
    stop: AbortSignal,
  ): Promise<Reading> {
    const answer = await this.#post("read", JSON.stringify(asked), "application/json", stop);
    let rest = "";
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    while (reader) {
      const { done, value } = await reader.read().catch(() => lost(stop));
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines.map((one) => JSON.parse(one) as Line)) {
        if ("reading" in line) {
          this.#known.set(line.reading.id, asked);
          return line.reading;
        }
        if ("error" in line) throw new SourceError(line.error, line.status);
        advanced(line);
      }
    }
    throw new SourceError(GONE, 0);
  }

  async weights(asked: WeightsAsked, stop?: AbortSignal): Promise<Block> {
    const answer = await this.#get("weights", { ...asked }, stop);
    const size = (name: string) => Number(answer.headers.get(`x-regard-${name}`) ?? 0);
    const numbers = new Float32Array(await answer.arrayBuffer());
    return {
      ...{ layers: size("layers"), heads: size("heads"), rows: size("rows"), keys: size("keys") },
      numbers,
    };
  }

  async logits(id: string, stop?: AbortSignal): Promise<Float32Array> {
    return new Float32Array(await (await this.#get("logits", { id }, stop)).arrayBuffer());
  }

  heads(id: string, stop?: AbortSignal): Promise<Heads> {
    return this.#json("heads", { id }, stop);
  }

  /** Heads whose knock-out changes the likeliest token most. */
  async effects(id: string, stop: AbortSignal): Promise<readonly Card[]> {
    return (await this.#json<{ cards: readonly Card[] }>("effects", { id }, stop)).cards;
  }

  async rollout(id: string, stack: string, row: number, stop?: AbortSignal): Promise<Float32Array> {
    const answer = await this.#get("rollout", { id, stack, row }, stop);
    return new Float32Array(await answer.arrayBuffer());
  }

  lesson<T>(id: string, head: string, row: number, key: number): Promise<T> {
    return this.#json("lesson", { id, head, row, key });
  }

  async file(id: string): Promise<Blob> {
    return (await this.#get("file", { id })).blob();
  }

  /** The reading's number among the recordings of the engineer's room. */
  async open(id: string): Promise<number> {
    const answer = await this.#post("open", JSON.stringify({ id }), "application/json");
    return ((await answer.json()) as { number: number }).number;
  }

  /** One self-contained page of a recording that was opened. */
  async page(number: number, head: string): Promise<Blob> {
    const query = new URLSearchParams({ prompt: "0", head });
    return (await this.#ask(`/api/${number}/page?${query}`, {})).blob();
  }

  async sound(file: Blob): Promise<string> {
    const answer = await this.#post("sound", file, "application/octet-stream");
    return ((await answer.json()) as { sound: string }).sound;
  }

  async #json<T>(name: string, words: Words, stop?: AbortSignal): Promise<T> {
    return (await (await this.#get(name, words, stop)).json()) as T;
  }

  async #get(name: string, words: Words, stop?: AbortSignal): Promise<Response> {
    const given = Object.entries(words).filter((pair) => pair[1] !== undefined);
    const query = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
    const address = `/api/play/${name}?${query}`;
    try {
      return await this.#ask(address, {}, stop);
    } catch (error) {
      const asked = this.#known.get(String(words.id));
      if (!(error instanceof SourceError) || error.status !== FORGOTTEN || !asked) throw error;
      await this.read(asked, () => undefined, stop ?? new AbortController().signal);
      return this.#ask(address, {}, stop);
    }
  }

  #post(name: string, body: BodyInit, kind: string, stop?: AbortSignal): Promise<Response> {
    const headers = { "content-type": kind };
    return this.#ask(`/api/play/${name}`, { method: "POST", body, headers }, stop);
  }

  async #ask(address: string, options: RequestInit, stop?: AbortSignal): Promise<Response> {
    let answer: Response;
    try {
      const headers = { ...options.headers, "x-regard-token": this.#token };
      answer = await fetch(address, { ...options, headers, signal: stop ?? null });
    } catch (error) {
      if (stop?.aborted) throw error;
      throw new SourceError(GONE, 0);
    }
    if (answer.status === STRANGER) throw new SourceError(OTHER, 0);
    if (!answer.ok) throw new SourceError(await reason(answer), answer.status);
    return answer;
  }
}

function lost(stop: AbortSignal): never {
  if (stop.aborted) throw new DOMException("given up", "AbortError");
  throw new SourceError(GONE, 0);
}

async function reason(answer: Response): Promise<string> {
  const text = await answer.text();
  try {
    return (JSON.parse(text) as { error: string }).error;
  } catch {
    return text || `the server answered ${answer.status}`;
  }
}
