import type { Source } from "../source/source";

export function EngineerRoom({ source }: { source: Source }) {
  return <main>{source.kind}</main>;
}
