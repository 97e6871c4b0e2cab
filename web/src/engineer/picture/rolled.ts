import type { Rollout } from "../../source/answers";
import type { Overlay, OverlayAt } from "../../source/binary";
import type { Source, Where } from "../../source/source";

/** What lies on the picture. */
export interface Laid {
  /** Nothing where it is refused. */
  readonly first: Overlay | undefined;
  /** What is told of all layers; null where one head was asked. */
  readonly rollout: Rollout | null;
}

/** A row or a column of one head. */
export async function lookedAt(
  source: Source,
  where: Where,
  head: string,
  at: OverlayAt,
  stop: AbortSignal,
): Promise<Laid> {
  const [first] = await source.overlays(where, [head], at, stop);
  return { first, rollout: null };
}

/** All layers of the head's stack together, from one position of the last. */
export async function rolledOut(
  source: Source,
  where: Where,
  head: string,
  query: number,
  stop: AbortSignal,
): Promise<Laid> {
  const rollout = await source.ask("rollout", { ...where, head, query }, stop);
  return { first: rollout.why ? undefined : overlayOf(rollout), rollout };
}

/** Shares beside what an even one would be, 1 over how many there are. */
export function overlayOf({ shares }: Rollout): Overlay {
  const weights = Float32Array.from(shares, (one) => one ?? Number.POSITIVE_INFINITY);
  return { weights, times: weights.map((one) => one * weights.length) };
}
