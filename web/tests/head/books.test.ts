import { describe, expect, it } from "vitest";
import { CellBook } from "../../src/engineer/head/cellBook";
import { TokenBook } from "../../src/engineer/head/tokenBook";
import { type Source, SourceError } from "../../src/source/source";

const where = { recording: 0, prompt: 0 };

describe("exact cells", () => {
  it("come by squares that end with the matrix", async () => {
    const asked: unknown[] = [];
    const book = new CellBook({ queries: 40, keys: 18 }, async (rows, keys) => {
      asked.push([rows, keys]);
      const [tall, wide] = [rows[1], keys[1]];
      const weights = Float32Array.from({ length: tall * wide }, (_, n) => n);
      return { weights, visible: Float32Array.from({ length: tall }, (_, n) => rows[0] + n) };
    });
    expect(book.get({ row: 33, key: 17 })).toBeUndefined();
    await Promise.all([book.ask({ row: 33, key: 17 }), book.ask({ row: 34, key: 16 })]);
    expect(asked).toEqual([
      [
        [32, 8],
        [16, 2],
      ],
    ]);
    expect(book.get({ row: 33, key: 17 })).toEqual({ weight: 3, visible: 33 });
    expect(book.news.value).toBe(1);
  });

  it("say why they do not come", async () => {
    const book = new CellBook({ queries: 4, keys: 4 }, () =>
      Promise.reject(new SourceError("q is damaged here", 500)),
    );
    await book.ask({ row: 0, key: 0 });
    expect(book.failure.value?.message).toBe("q is damaged here");
  });
});

describe("token texts", () => {
  const source = (answer: (start: number, count: number) => Promise<unknown>) =>
    ({
      ask: (_name: unknown, part: { start: number; count: number }) =>
        answer(part.start, part.count),
    }) as Source;

  it("come by pages, each asked for once", async () => {
    const asked: number[][] = [];
    const texts = source(async (start, count) => {
      asked.push([start, count]);
      return { tokens: Array.from({ length: count }, (_, n) => `t${start + n}`) };
    });
    const book = new TokenBook(texts, where, "tokens", 1500);
    expect(book.text(1030)).toBeUndefined();
    await book.ready(1031);
    expect(book.text(1030)).toBe("t1030");
    await book.ready(1030);
    expect(asked).toEqual([[1024, 476]]);
    expect(book.news.value).toBe(1);
  });

  it("are null where the recording has none", async () => {
    const none = source(() => Promise.reject(new SourceError("there is no stream", 404)));
    const book = new TokenBook(none, where, "x", 10);
    await book.ready(3);
    expect(book.text(3)).toBeNull();
  });
});
