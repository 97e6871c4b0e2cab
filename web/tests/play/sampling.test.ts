import { expect, test } from "vitest";
import { argmax, candidates, drawn, shares } from "../../src/play/sampling";

const LOGITS = new Float32Array([1, 3, 2, -1]);

test("shares are a softmax, and large logits do not overflow", () => {
  const plain = shares(LOGITS);
  expect(plain.reduce((a, b) => a + b)).toBeCloseTo(1);
  expect((plain[1] ?? 0) / (plain[2] ?? 1)).toBeCloseTo(Math.E);
  const cold = shares(LOGITS, 0.5);
  expect((cold[1] ?? 0) / (cold[2] ?? 1)).toBeCloseTo(Math.E ** 2);
  expect([...shares(new Float32Array([1000, 999]))].every(Number.isFinite)).toBe(true);
});

test("temperature 0 is the likeliest token alone", () => {
  expect(candidates(LOGITS, { temperature: 0, topK: 0, topP: 1 })).toEqual([{ id: 1, share: 1 }]);
  expect(argmax(LOGITS)).toBe(1);
});

test("top-k keeps so many, top-p as many as reach the share, and what is left adds up to 1", () => {
  const two = candidates(LOGITS, { temperature: 1, topK: 2, topP: 1 });
  expect(two.map((one) => one.id)).toEqual([1, 2]);
  expect(two.reduce((sum, one) => sum + one.share, 0)).toBeCloseTo(1);
  const some = candidates(LOGITS, { temperature: 1, topK: 0, topP: 0.8 });
  expect(some.map((one) => one.id)).toEqual([1, 2]);
  expect(candidates(LOGITS, { temperature: 1, topK: 0, topP: 0.05 })).toHaveLength(1);
  expect(candidates(LOGITS, { temperature: 2, topK: 0, topP: 1 })).toHaveLength(4);
});

test("a token is drawn by its share", () => {
  const among = [
    { id: 4, share: 0.75 },
    { id: 9, share: 0.25 },
  ];
  expect([0, 0.74, 0.76, 0.999999].map((at) => drawn(among, at))).toEqual([4, 4, 9, 9]);
});
