// The other side of src/regard/viewer/packing.py: base64 → deflate → byte planes → numbers.

export type Part = { readonly name: string; readonly count: number } & (
  | { readonly form: "exact" }
  | { readonly form: "rounded"; readonly step: number }
  | { readonly form: "codes"; readonly size: readonly [rows: number, columns: number] }
);

const BYTES = { exact: 4, rounded: 3, codes: 1 } as const;
const NO_NUMBER = 2 ** 24 - 1;

export async function inflate(base64: string): Promise<Uint8Array<ArrayBuffer>> {
  const packed = bytesOf(base64);
  const stream = new DecompressionStream("deflate");
  // by hand: a Blob's stream and a Response take four times as long for a page of small blobs
  const [content] = await Promise.all([gathered(stream.readable), fed(stream.writable, packed)]);
  return content;
}

/** By the browser itself where it can. */
function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  if ("fromBase64" in Uint8Array) return (Uint8Array as unknown as Base64Reader).fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let n = 0; n < text.length; n += 1) bytes[n] = text.charCodeAt(n);
  return bytes;
}

interface Base64Reader {
  fromBase64(text: string): Uint8Array<ArrayBuffer>;
}

async function fed(sink: WritableStream<BufferSource>, bytes: Uint8Array<ArrayBuffer>) {
  const writer = sink.getWriter();
  await writer.write(bytes);
  await writer.close();
}

async function gathered(source: ReadableStream<Uint8Array>) {
  const reader = source.getReader();
  const pieces: Uint8Array[] = [];
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    pieces.push(next.value);
  }
  const content = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    content.set(piece, at);
    at += piece.length;
  }
  return content;
}

export async function inflateJson<T>(base64: string): Promise<T> {
  return JSON.parse(new TextDecoder().decode(await inflate(base64))) as T;
}

/** Each part's own bytes, by name. */
export function split(content: Uint8Array, parts: readonly Part[]): Map<string, Uint8Array> {
  const found = new Map<string, Uint8Array>();
  let at = 0;
  for (const part of parts) {
    const end = at + part.count * BYTES[part.form];
    found.set(part.name, content.subarray(at, end));
    at = end;
  }
  return found;
}

/** The numbers of an exact or a rounded part. */
export function numbers(bytes: Uint8Array, part: Part): Float32Array {
  if (part.form === "exact") return exact(bytes, part.count);
  if (part.form === "rounded") return rounded(bytes, part.count, part.step);
  throw new Error(`${part.name} holds codes, not numbers`);
}

function exact(planes: Uint8Array, count: number): Float32Array {
  const bytes = new Uint8Array(4 * count);
  for (let plane = 0; plane < 4; plane += 1) {
    const start = plane * count;
    for (let n = 0; n < count; n += 1) bytes[4 * n + plane] = planes[start + n] as number;
  }
  return new Float32Array(bytes.buffer); // every machine that runs browsers is little-endian
}

function rounded(planes: Uint8Array, count: number, step: number): Float32Array {
  const found = new Float32Array(count);
  for (let n = 0; n < count; n += 1) {
    const low = planes[n] as number;
    const middle = planes[count + n] as number;
    const high = planes[2 * count + n] as number;
    const code = low | (middle << 8) | (high << 16);
    found[n] = code === NO_NUMBER ? Number.NaN : code * step;
  }
  return found;
}
