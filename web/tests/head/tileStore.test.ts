import { beforeAll, describe, expect, it } from "vitest";
import { TileStore } from "../../src/engineer/head/tileStore";
import { type TileAt, tileName } from "../../src/engineer/head/tiling";
import type { Tile } from "../../src/source/binary";
import { SourceError } from "../../src/source/source";

const at = (x: number): TileAt => ({ level: 1, y: 0, x, how: "mean" });
const tile = (code: number): Tile => ({ codes: new Uint8Array(65536).fill(code), nan: 0 });

class Server {
  readonly asked = new Map<string, (answer: Tile | Error) => void>();
  readonly stopped: string[] = [];
  readonly load = (one: TileAt, stop: AbortSignal) =>
    new Promise<Tile>((resolve, reject) => {
      const name = tileName(one);
      this.asked.set(name, (answer) =>
        answer instanceof Error ? reject(answer) : resolve(answer),
      );
      stop.addEventListener("abort", () => this.stopped.push(name));
    });
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

beforeAll(() => {
  Object.assign(globalThis, { document: { createElement: () => ({}) } });
});

describe("the store of tiles", () => {
  it("asks for four at a time, the first ones first", async () => {
    const server = new Server();
    const store = new TileStore(server.load);
    store.want([0, 1, 2, 3, 4, 5].map(at));
    expect([...server.asked.keys()]).toEqual([0, 1, 2, 3].map((x) => tileName(at(x))));
    server.asked.get(tileName(at(1)))?.(tile(7));
    await settled();
    expect(store.get(at(1))?.codes[0]).toBe(7);
    expect(store.get(at(1))?.columns[255]).toBe(7);
    expect(server.asked.has(tileName(at(4)))).toBe(true);
    expect(store.waiting.value).toBe(5);
  });

  it("gives up what nobody looks at, and keeps what is still wanted on its way", () => {
    const server = new Server();
    const store = new TileStore(server.load);
    store.want([0, 1].map(at));
    store.want([1, 9].map(at));
    expect(server.stopped).toEqual([tileName(at(0))]);
    expect(server.asked.has(tileName(at(9)))).toBe(true);
  });

  it("says why a tile is missing, and asks again only when told to", async () => {
    const server = new Server();
    const store = new TileStore(server.load);
    store.want([at(0)]);
    server.asked.get(tileName(at(0)))?.(new SourceError("no such tile", 404));
    await settled();
    expect(store.failure.value?.message).toBe("no such tile");
    server.asked.clear();
    store.want([at(0)]);
    expect(server.asked.size).toBe(0);
    store.retry();
    store.want([at(0)]);
    expect(server.asked.size).toBe(1);
    expect(store.failure.value).toBeNull();
  });

  it("knows whether anything in view is no number", async () => {
    const server = new Server();
    const store = new TileStore(server.load);
    store.want([0, 1].map(at));
    server.asked.get(tileName(at(0)))?.(tile(7));
    await settled();
    expect(store.isBroken.value).toBe(false);
    server.asked.get(tileName(at(1)))?.({ ...tile(0), nan: 3 });
    await settled();
    expect(store.isBroken.value).toBe(true);
  });

  it("waits until nothing is missing, but not forever", async () => {
    const server = new Server();
    const store = new TileStore(server.load);
    await store.complete(1);
    store.want([0, 1].map(at));
    await expect(store.complete(1)).rejects.toThrow("2 tiles are to come");
    const whole = store.complete(5_000);
    server.asked.get(tileName(at(0)))?.(tile(1));
    server.asked.get(tileName(at(1)))?.(tile(1));
    await expect(whole).resolves.toBeUndefined();
  });
});
