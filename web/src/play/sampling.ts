// The next token's distribution out of its logits: temperature, then top-k, then top-p.

export interface Sampling {
  readonly temperature: number;
  /** 0: all. */
  readonly topK: number;
  /** 1: all. */
  readonly topP: number;
}

export const PLAIN: Sampling = { temperature: 1, topK: 0, topP: 1 };

/** Whether every token may be drawn. */
export function isPlain({ temperature, topK, topP }: Sampling): boolean {
  return temperature > 0 && topK === 0 && topP >= 1;
}

/** Shares of all tokens: softmax(logits / temperature). */
export function shares(logits: Float32Array, temperature = 1): Float64Array {
  const result = new Float64Array(logits.length);
  let highest = Number.NEGATIVE_INFINITY;
  for (const one of logits) highest = Math.max(highest, one);
  let sum = 0;
  for (let n = 0; n < logits.length; n += 1) {
    const value = Math.exp(((logits[n] ?? 0) - highest) / temperature);
    result[n] = value;
    sum += value;
  }
  for (let n = 0; n < result.length; n += 1) result[n] = (result[n] ?? 0) / sum;
  return result;
}

/** Which tokens may be drawn, likeliest first, with their shares among one another. */
export function candidates(
  logits: Float32Array,
  { temperature, topK, topP }: Sampling,
): { id: number; share: number }[] {
  if (temperature <= 0) return [{ id: argmax(logits), share: 1 }];
  const every = shares(logits, temperature);
  const order = [...every.keys()].sort((a, b) => (every[b] ?? 0) - (every[a] ?? 0) || a - b);
  const most = topK > 0 ? order.slice(0, topK) : order;
  const total = most.reduce((sum, id) => sum + (every[id] ?? 0), 0);
  const kept: { id: number; share: number }[] = [];
  let mass = 0;
  for (const id of most) {
    if (kept.length && mass / total >= topP) break;
    kept.push({ id, share: every[id] ?? 0 });
    mass += every[id] ?? 0;
  }
  return kept.map(({ id, share }) => ({ id, share: share / mass }));
}

export function argmax(logits: Float32Array): number {
  let best = 0;
  for (let n = 1; n < logits.length; n += 1) {
    if ((logits[n] ?? 0) > (logits[best] ?? 0)) best = n;
  }
  return best;
}

/** One of them; `at` is a random number in [0, 1). */
export function drawn(
  among: readonly { readonly id: number; readonly share: number }[],
  at: number,
): number {
  let left = at;
  for (const { id, share } of among) {
    left -= share;
    if (left < 0) return id;
  }
  return among[among.length - 1]?.id ?? 0;
}
