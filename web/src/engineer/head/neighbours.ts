import type { HeadShort } from "../../source/answers";

export interface Neighbours {
  readonly before: string | null;
  readonly after: string | null;
  readonly above: string | null;
  readonly below: string | null;
}

/** The heads beside this one, of the same stack, and those of the layers beside it. */
export function neighboursOf(heads: readonly HeadShort[], label: string): Neighbours {
  const own = heads.find((one) => one.label === label);
  if (!own) return { before: null, after: null, above: null, below: null };
  const stack = heads
    .filter((one) => one.stack === own.stack)
    .toSorted((a, b) => a.layer - b.layer || a.head - b.head);
  const at = stack.indexOf(own);
  const layers = [...new Set(stack.map((one) => one.layer))];
  const layer = layers.indexOf(own.layer);
  const inLayer = (n: number) => {
    const row = stack.filter((one) => one.layer === layers[n]);
    return (row.find((one) => one.head === own.head) ?? row.at(-1))?.label ?? null;
  };
  return {
    before: stack[at - 1]?.label ?? null,
    after: stack[at + 1]?.label ?? null,
    above: inLayer(layer - 1),
    below: inLayer(layer + 1),
  };
}
