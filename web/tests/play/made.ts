import type { Block } from "../../src/play/api";

/** A block of one layer whose heads are these matrices (rows × keys). */
export function blockOf(...heads: readonly (readonly (readonly number[])[])[]): Block {
  const rows = heads[0]?.length ?? 0;
  const keys = heads[0]?.[0]?.length ?? 0;
  return { layers: 1, heads: heads.length, rows, keys, numbers: new Float32Array(heads.flat(2)) };
}
