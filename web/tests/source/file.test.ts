import { describe, expect, it } from "vitest";
import { FileSource } from "../../src/source/file";
import { SourceError } from "../../src/source/source";
import { type Case, cases } from "./carried";

const HERE = { recording: 0, prompt: 0 };

function sourceOf(one: Case): FileSource {
  return new FileSource((number) => one.blobs[number] ?? "");
}

function bytes(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** Half a step, and what float32 loses. */
function near(found: number, wanted: number | null, step: number): boolean {
  if (wanted === null) return Number.isNaN(found);
  return Math.abs(found - wanted) <= step / 2 + 1e-6;
}

describe.skipIf(cases.length === 0).each(cases)("a file that carries $name", (one) => {
  const source = sourceOf(one);

  it("lists its heads", async () => {
    const overview = await source.ask("overview", HERE);
    expect(overview.heads.map((head) => head.label)).toEqual(one.labels);
    expect((await source.recordings()).map((listing) => listing.prompts)).toEqual([1]);
  });

  it("has the weights of the rows it carries", async () => {
    for (const head of one.heads) {
      for (const row of head.rows) {
        const found = await source.weights(HERE, head.label, row.row);
        expect(found.length).toBe(head.shape[1]);
        const wrong = row.weights.findIndex(
          (wanted, key) => !near(found[key] as number, wanted, one.step),
        );
        expect(wrong, `${head.label} row ${row.row}`).toBe(-1);
        const cells = await source.cells(HERE, head.label, [row.row, 1], [0, head.shape[1]]);
        expect(cells.weights).toEqual(found);
        expect(cells.visible[0]).toBe(row.visible);
      }
    }
  });

  it("names the heaviest keys", async () => {
    for (const head of one.heads) {
      for (const row of head.rows) {
        const found = await source.ask("row", { ...HERE, head: head.label, row: row.row, top: 4 });
        expect(found.visible).toBe(row.visible);
        for (const [n, wanted] of row.top.entries()) {
          const weight = found.top[n]?.weight ?? Number.NaN;
          expect(near(weight, wanted.weight, one.step), `${head.label} ${row.row}`).toBe(true);
          if (one.step === 0) expect(found.top[n]?.key).toBe(wanted.key);
        }
      }
    }
  });

  it("draws the tiles the server would", async () => {
    for (const head of one.heads) {
      for (const tile of head.tiles) {
        const found = await source.tile(HERE, head.label, { ...tile.at, how: tile.how });
        const wanted = bytes(tile.codes);
        expect(found.codes.length).toBe(wanted.length);
        const hidden = found.codes.findIndex((code, n) => (code === 0) !== (wanted[n] === 0));
        expect(hidden).toBe(-1);
        if (one.step > 0) continue;
        const far = found.codes.findIndex((code, n) => Math.abs(code - (wanted[n] as number)) > 1);
        expect(far).toBe(-1);
      }
    }
  });

  it("has the tracks", async () => {
    for (const head of one.heads) {
      const { tracks } = await source.ask("head", { ...HERE, head: head.label });
      for (const [name, wanted] of Object.entries(head.tracks)) {
        const found = tracks[name as keyof typeof tracks]?.mean ?? null;
        expect(found?.length).toBe(wanted?.length);
        const most = Math.max(...(wanted ?? []).map((value) => value ?? 0));
        for (const [n, value] of (wanted ?? []).entries()) {
          expect(Math.abs((found?.[n] ?? Number.NaN) - (value ?? Number.NaN))).toBeLessThan(
            most * 2e-4,
          );
        }
      }
    }
  });

  it("has a small picture of each head", async () => {
    const found = await source.thumbnails(HERE, "");
    expect(found.kinds.length).toBe(found.layers * found.heads);
    expect(found.kinds.reduce((sum, kind) => sum + kind, 0)).toBe(one.labels.length);
    expect(found.codes.some((code) => code > 0)).toBe(true);
  });

  it("says in a sentence what it has not", async () => {
    await expect(source.ask("compare", { ...HERE, other: 1, other_prompt: 0 })).rejects.toThrow(
      "regard view",
    );
    await expect(source.ask("head", { ...HERE, head: "L99H0" })).rejects.toThrow(
      "L99H0 is not in this file",
    );
    await expect(source.ask("overview", { recording: 0, prompt: 3 })).rejects.toBeInstanceOf(
      SourceError,
    );
    const [head] = one.heads;
    const at = { level: 3, y: 0, x: 0, how: "mean" as const };
    if (head) await expect(source.tile(HERE, head.label, at)).rejects.toThrow("3 tokens a pixel");
  });
});
