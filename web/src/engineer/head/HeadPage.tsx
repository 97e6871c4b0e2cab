import type { Source, Where } from "../../source/source";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly label: string;
}

export function HeadPage({ label }: Props) {
  return <main>{label}</main>;
}
