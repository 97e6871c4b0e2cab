import { signal } from "@preact/signals";
import { type Source, SourceError, type Where } from "../../source/source";
import { asSourceError } from "../answer";
import { noteFailure } from "../states/connection";
import { Lru } from "./lru";

// Token texts of one stream, by pages.

export const PAGE = 1024;
const MOST_PAGES = 256;

/** What positions without a text are called; null where nothing is known of them. */
export type Naming = () => Promise<((n: number) => string | null) | null>;

export class TokenBook {
  /** Counts the pages that came. */
  readonly news = signal(0);
  readonly #pages = new Lru<readonly string[]>(MOST_PAGES);
  readonly #asked = new Map<number, Promise<void>>();
  readonly #ask: (start: number) => Promise<readonly string[]>;
  readonly #names: Naming | undefined;
  #name: ((n: number) => string | null) | null = null;

  /** `names` is asked where a stream has no texts: patches and moments have places. */
  constructor(source: Source, where: Where, stream: string, total: number, names?: Naming) {
    this.#names = names;
    this.#ask = async (start) => {
      if (start >= total || (names && !stream)) return []; // no stream: no texts
      const count = Math.min(PAGE, total - start);
      return (await source.ask("tokens", { ...where, stream, start, count })).tokens;
    };
  }

  /** The token's text: undefined until its page is here, null where there is none. */
  text(n: number): string | null | undefined {
    const page = Math.floor(n / PAGE);
    const found = this.#pages.get(String(page));
    if (found) return found[n - page * PAGE] ?? this.#name?.(n) ?? null;
    this.#load(page).catch((error: unknown) => noteFailure(asSourceError(error)));
    return undefined;
  }

  /** When the page of a token is here. */
  async ready(n: number): Promise<void> {
    if (this.text(n) === undefined) await this.#load(Math.floor(n / PAGE));
  }

  #load(page: number): Promise<void> {
    const asked = this.#asked.get(page) ?? this.#fetch(page);
    this.#asked.set(page, asked);
    return asked;
  }

  async #texts(page: number): Promise<readonly string[]> {
    const found = await this.#ask(page * PAGE);
    if (!found.length) this.#name ??= (await this.#names?.()) ?? null;
    return found;
  }

  async #fetch(page: number): Promise<void> {
    try {
      this.#pages.put(String(page), await this.#texts(page));
    } catch (error) {
      if (!(error instanceof SourceError) || error.isGone) throw error;
      this.#pages.put(String(page), []); // the recording has no such tokens
    } finally {
      this.#asked.delete(page);
    }
    this.news.value += 1;
  }
}
