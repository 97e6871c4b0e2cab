// numpy's PCG64, seeded by its SeedSequence: the numbers that Python makes up, to the last bit.
// The state is 128 bits wide; its two halves are folded and turned into 64 (XSL-RR).

const MASK_64 = (1n << 64n) - 1n;
const MASK_128 = (1n << 128n) - 1n;
const MULTIPLIER = 0x2360ed051fc65da44385df649fccf645n;
const POOL = 4;

/** Whole numbers as 32-bit words, the lowest first; zero is one word. */
function wordsOf(seed: readonly (bigint | number)[]): number[] {
  return seed.flatMap((part) => {
    const words: number[] = [];
    for (let rest = BigInt(part); rest > 0n || !words.length; rest >>= 32n) {
      words.push(Number(rest & 0xffffffffn));
    }
    return words;
  });
}

/** SeedSequence's hash, whose constant changes with every use. */
function hasher(start: number, factor: number): (value: number) => number {
  let constant = start;
  return (value) => {
    const mixed = value ^ constant;
    constant = Math.imul(constant, factor);
    const product = Math.imul(mixed, constant);
    return (product ^ (product >>> 16)) >>> 0;
  };
}

function mix(x: number, y: number): number {
  const result = (Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y)) | 0;
  return (result ^ (result >>> 16)) >>> 0;
}

/** SeedSequence(seed).generate_state(8): eight 32-bit words. */
function stateOf(seed: readonly (bigint | number)[]): number[] {
  const entropy = wordsOf(seed);
  const hash = hasher(0x43b0d7e5, 0x931e8875);
  const pool = Array.from({ length: POOL }, (_, n) => hash(entropy[n] ?? 0));
  const stir = (to: number, word: number) => {
    pool[to] = mix(pool[to] as number, hash(word));
  };
  for (let from = 0; from < POOL; from += 1) {
    for (let to = 0; to < POOL; to += 1) if (to !== from) stir(to, pool[from] as number);
  }
  for (const word of entropy.slice(POOL)) for (let to = 0; to < POOL; to += 1) stir(to, word);
  const draw = hasher(0x8b51f9dd, 0x58f38ded);
  return Array.from({ length: 8 }, (_, n) => draw(pool[n % POOL] as number));
}

/** The first `count` raw 64-bit words of PCG64(seed). */
export function rawWords(seed: readonly (bigint | number)[], count: number): bigint[] {
  const words = stateOf(seed).map(BigInt);
  const long = (n: number) => (words[2 * n] as bigint) | ((words[2 * n + 1] as bigint) << 32n);
  const increment = ((((long(2) << 64n) | long(3)) << 1n) | 1n) & MASK_128;
  const step = (state: bigint) => (state * MULTIPLIER + increment) & MASK_128;
  let state = step((increment + ((long(0) << 64n) | long(1))) & MASK_128);
  return Array.from({ length: count }, () => {
    state = step(state);
    const folded = (state >> 64n) ^ (state & MASK_64);
    const turn = state >> 122n;
    return ((folded >> turn) | (folded << (64n - turn))) & MASK_64;
  });
}
