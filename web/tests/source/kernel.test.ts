import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KernelLine } from "../../src/source/kernel";
import { ServerSource } from "../../src/source/server";

const HERE = { recording: 0, prompt: 0 };

/** A line whose port only notes what was sent. */
function made() {
  const sent: { id: string; address?: string; stop?: boolean }[] = [];
  const port = { postMessage: (message: object) => sent.push(message as (typeof sent)[0]) };
  const line = new KernelLine(Promise.resolve(port));
  return { sent, line, source: new ServerSource(line.ask, "kernel") };
}

const json = (value: unknown) =>
  new TextEncoder().encode(JSON.stringify(value)).buffer as ArrayBuffer;

describe("the line to a kernel", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("asks with the server's addresses and takes answers in any order", async () => {
    const { sent, line, source } = made();
    const [first, second] = [source.recordings(), source.tile(HERE, "L0H0", TILE)];
    await vi.advanceTimersByTimeAsync(0);
    expect(sent.map((one) => one.address)).toEqual([
      "/api/recordings",
      "/api/0/tile?prompt=0&head=L0H0&level=1&y=0&x=2&how=mean",
    ]);
    const body = new Uint8Array([3, 4]).buffer;
    line.hear({ id: "2", status: 200, headers: { "x-regard-nan": "7" }, body });
    line.hear({ id: "1", status: 200, headers: {}, body: json([]) });
    expect(await second).toEqual({ codes: new Uint8Array([3, 4]), nan: 7 });
    expect(await first).toEqual([]);
  });

  it("passes on why there is no answer", async () => {
    const { line, source } = made();
    const asked = source.recordings();
    line.hear({ id: "1", status: 409, headers: {}, body: json({ error: "not kept" }) });
    await expect(asked).rejects.toMatchObject({ message: "not kept", status: 409, isGone: false });
  });

  it("counts a kernel as gone that was not heard from", async () => {
    const { sent, source } = made();
    const asked = expect(source.recordings()).rejects.toMatchObject({ isGone: true });
    await vi.advanceTimersByTimeAsync(11_000);
    await asked;
    expect(sent.at(-1)).toEqual({ id: "1", stop: true });
  });

  it("waits as long as it takes for a kernel that was heard from", async () => {
    const { line, source } = made();
    const asked = source.recordings();
    line.hear({ id: "1", heard: true });
    await vi.advanceTimersByTimeAsync(600_000);
    line.hear({ id: "1", status: 200, headers: {}, body: json([]) });
    expect(await asked).toEqual([]);
  });

  it("stops what nobody waits for", async () => {
    const { sent, source } = made();
    const control = new AbortController();
    const asked = source.tile(HERE, "L0H0", TILE, control.signal);
    control.abort();
    await expect(asked).rejects.toMatchObject({ name: "AbortError" });
    await vi.advanceTimersByTimeAsync(0);
    expect(sent.at(-1)).toEqual({ id: "1", stop: true });
  });
});

const TILE = { level: 1, y: 0, x: 2, how: "mean" as const };
