import type { Source, Where } from "../../source/source";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly label: string;
  readonly row: number;
}

export function RowPage({ label }: Props) {
  return <main>{label}</main>;
}
