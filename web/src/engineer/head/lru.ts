/** The things used last, at most `most` of them. */
export class Lru<T> {
  readonly #kept = new Map<string, T>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#kept.size;
  }

  get(name: string): T | undefined {
    const found = this.#kept.get(name);
    if (found === undefined) return undefined;
    this.#kept.delete(name); // a Map keeps the order of insertion: now it is the newest
    this.#kept.set(name, found);
    return found;
  }

  has(name: string): boolean {
    return this.#kept.has(name);
  }

  put(name: string, value: T): void {
    this.#kept.delete(name);
    this.#kept.set(name, value);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= this.#most) break;
      this.#kept.delete(oldest);
    }
  }

  clear(): void {
    this.#kept.clear();
  }
}
