import type { HeadFacts, RowFacts } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import type { Shading } from "./Chunk";
import { type Heavy, type Mass, massOf, seenSpan } from "./mass";

/** All that is shown of one row. */
export interface Row {
  readonly facts: RowFacts;
  readonly shading: Shading;
  readonly top: readonly Heavy[];
  readonly mass: Mass | null;
  /** The keys that it may see: the first, and the one after the last. */
  readonly span: readonly [number, number];
}

const TOP = 32;

/** The row's numbers: every weight, or the heaviest that were kept. */
export async function askRow(
  source: Source,
  where: Where,
  head: HeadFacts,
  row: number,
  stop: AbortSignal,
): Promise<Row> {
  const isCarried = head.exact || (head.rows?.includes(row) ?? false);
  const [facts, weights] = await Promise.all([
    source.ask("row", { ...where, head: head.label, row, top: TOP }),
    isCarried ? source.weights(where, head.label, row, stop) : null,
  ]);
  const top = facts.top.map((one) => ({ key: one.key, weight: one.weight ?? Number.NaN }));
  const query = head.kind === "self" && row < head.shape[1] ? row : null;
  const shading: Shading = {
    ...{ weights, query, scale: head.scale, visible: facts.visible ?? Number.NaN },
    some: new Map(top.map((one) => [one.key, one.weight])),
  };
  const seen = weights ? seenSpan(weights) : ([0, facts.visible ?? head.shape[1]] as const);
  const span = withQuery(seen, query);
  return { facts, shading, top, mass: weights && massOf(weights), span };
}

/** The row before or after this one of which something is known; null where there is none. */
export function rowBeside(head: HeadFacts, row: number, by: -1 | 1): number | null {
  const [first, stop] = head.recorded;
  if (!head.rows) return row + by >= first && row + by < stop ? row + by : null;
  const beyond = head.rows.filter((one) => (by < 0 ? one < row : one > row));
  return beyond.at(by < 0 ? -1 : 0) ?? null;
}

/** A window may end before the query; its place is on the axis all the same. */
function withQuery(span: readonly [number, number], query: number | null) {
  if (query === null) return span;
  return [Math.min(span[0], query), Math.max(span[1], query + 1)] as const;
}
