import { type Ask, SourceError } from "./source";

const PATIENCE = 10_000; // milliseconds until a kernel that was not heard from counts as gone
const GONE = "The kernel does not answer: it is running a cell, or it was restarted.";

/** What the widget passes on from the kernel (src/regard/viewer/kernel.py). */
export interface KernelMessage {
  readonly id: string;
  readonly heard?: boolean;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: ArrayBuffer;
}

interface Waiting {
  readonly resolve: (answer: Response) => void;
  readonly timer: ReturnType<typeof setTimeout>;
}

/** Questions to the kernel and its answers, in whatever order they come. */
export class KernelLine {
  readonly #port: Promise<{ postMessage(message: object): void }>;
  readonly #waiting = new Map<string, Waiting>();
  #last = 0;

  /** `port` leads to the widget around this frame. */
  constructor(port: Promise<{ postMessage(message: object): void }>) {
    this.#port = port;
  }

  readonly ask: Ask = (address, stop) =>
    new Promise((resolve, reject) => {
      if (stop?.aborted) return reject(stop.reason);
      this.#last += 1;
      const id = String(this.#last);
      const end = (error: unknown) => {
        if (!this.#taken(id)) return;
        this.#post({ id, stop: true });
        reject(error);
      };
      const timer = setTimeout(() => end(new SourceError(GONE, 0)), PATIENCE);
      this.#waiting.set(id, { resolve, timer });
      stop?.addEventListener("abort", () => end(stop.reason), { once: true });
      this.#post({ id, address });
    });

  hear({ id, status, headers, body }: KernelMessage): void {
    if (status === undefined)
      clearTimeout(this.#waiting.get(id)?.timer); // it is at it
    else this.#taken(id)?.resolve(new Response(body ?? null, { status, headers: { ...headers } }));
  }

  #taken(id: string): Waiting | undefined {
    const found = this.#waiting.get(id);
    this.#waiting.delete(id);
    clearTimeout(found?.timer);
    return found;
  }

  async #post(message: object): Promise<void> {
    (await this.#port).postMessage(message);
  }
}
