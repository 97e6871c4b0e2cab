// SHA-256 by its definition (FIPS 180-4): the page hashes words as Python's hashlib does, at once
// and also where the browser's own crypto is closed (a page opened from a file).

const PRIMES = firstPrimes(64);
const ROUND = PRIMES.map((prime) => fraction(Math.cbrt(prime)));
const START = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

function firstPrimes(count: number): number[] {
  const found: number[] = [];
  for (let n = 2; found.length < count; n += 1) {
    if (found.every((prime) => n % prime !== 0)) found.push(n);
  }
  return found;
}

/** The first 32 bits after the point. */
function fraction(value: number): number {
  return Math.floor((value - Math.floor(value)) * 2 ** 32) >>> 0;
}

/** The 32 bytes of the hash, as eight words. */
export function sha256(text: string): number[] {
  const blocks = padded(new TextEncoder().encode(text));
  const hash = [...START];
  for (let at = 0; at < blocks.byteLength; at += 64) {
    const worked = rounds(hash, schedule(blocks, at));
    worked.forEach((word, n) => {
      hash[n] = ((hash[n] as number) + word) >>> 0;
    });
  }
  return hash;
}

/** The bytes, a one, zeros and the length in bits, up to whole blocks of 64 bytes. */
function padded(bytes: Uint8Array): DataView {
  const all = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  all.set(bytes);
  all[bytes.length] = 0x80;
  const view = new DataView(all.buffer);
  view.setUint32(all.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(all.length - 4, (bytes.length * 8) >>> 0);
  return view;
}

const turn = (word: number, by: number) => (word >>> by) | (word << (32 - by));

function schedule(blocks: DataView, at: number): number[] {
  const w = Array.from({ length: 16 }, (_, n) => blocks.getUint32(at + 4 * n));
  for (let n = 16; n < 64; n += 1) {
    const [a, b] = [w[n - 15] as number, w[n - 2] as number];
    const early = turn(a, 7) ^ turn(a, 18) ^ (a >>> 3);
    const late = turn(b, 17) ^ turn(b, 19) ^ (b >>> 10);
    w.push(((w[n - 16] as number) + early + (w[n - 7] as number) + late) >>> 0);
  }
  return w;
}

function rounds(hash: readonly number[], w: readonly number[]): number[] {
  let [a, b, c, d, e, f, g, h] = hash as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  for (let n = 0; n < 64; n += 1) {
    const choice = (e & f) ^ (~e & g);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const one = (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choice;
    const sum = (h + one + (ROUND[n] as number) + (w[n] as number)) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + majority) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + sum) | 0, c, b, a, (sum + two) | 0];
  }
  return [a, b, c, d, e, f, g, h];
}
