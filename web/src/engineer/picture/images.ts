import { useEffect, useState } from "preact/hooks";
import type { Source, Where } from "../../source/source";
import { asSourceError } from "../answer";
import { noteFailure } from "../states/connection";

/** A picture, or why there is none. */
export interface Image {
  readonly bitmap: ImageBitmap | null;
  readonly why: string;
}

const NOTHING: Image = { bitmap: null, why: "" };
const BROKEN = "This picture cannot be decoded; patches are drawn without it.";

/** The pictures of those numbers, decoded once; nothing for −1. */
export function useImages(
  source: Source,
  where: Where,
  numbers: readonly number[],
): ReadonlyMap<number, Image> {
  const [images, setImages] = useState<ReadonlyMap<number, Image>>(new Map());
  const wanted = [...new Set(numbers)].filter((n) => n >= 0);
  const from = `${where.recording}/${where.prompt}`;
  useEffect(() => setImages(new Map()), [source, from]);
  useEffect(() => {
    const control = new AbortController();
    for (const number of wanted.filter((n) => !images.has(n))) {
      load(source, where, number, control.signal).then((image) => {
        if (!control.signal.aborted) setImages((old) => new Map(old).set(number, image));
      });
    }
    return () => control.abort();
  }, [source, from, wanted.join()]);
  return images;
}

async function load(
  source: Source,
  where: Where,
  number: number,
  stop: AbortSignal,
): Promise<Image> {
  let bytes: Blob;
  try {
    bytes = await source.picture(where, number, stop);
  } catch (error) {
    if (stop.aborted) return NOTHING;
    const reason = asSourceError(error);
    noteFailure(reason);
    return { bitmap: null, why: reason.message };
  }
  try {
    return { bitmap: await createImageBitmap(bytes), why: "" };
  } catch {
    return { bitmap: null, why: BROKEN };
  }
}
