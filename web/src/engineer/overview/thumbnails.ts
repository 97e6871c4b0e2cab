import type { Overview } from "../../source/answers";
import { NO_PICTURE, type Thumbnails } from "../../source/binary";
import type { Source, Where } from "../../source/source";
import { type Answer, useAnswer } from "../answer";

/** Small pictures by the name of their stack. */
export type StackPictures = Answer<ReadonlyMap<string, Thumbnails>>;

/** Of every stack of a prompt; of one that grows, asked anew, the old ones kept meanwhile. */
export function useThumbnails(source: Source, where: Where, overview: Overview): StackPictures {
  const names = overview.stacks.map((stack) => stack.name);
  return useAnswer(
    async (stop) => {
      const found = await Promise.all(names.map((name) => source.thumbnails(where, name, stop)));
      return new Map(names.map((name, n) => [name, found[n] as Thumbnails]));
    },
    [source, where.recording, where.prompt, overview.revision, names.join("/")],
    true,
  );
}

/** Whether any head has a picture; as long as that is not known, one hopes. */
export function hasPictures(pictures: StackPictures): boolean {
  if (pictures.state === "failed") return false;
  if (pictures.state === "waiting") return true;
  return [...pictures.value.values()].some((one) => one.kinds.some((kind) => kind !== NO_PICTURE));
}
