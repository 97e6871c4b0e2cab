import { placesOf } from "../../maths/format";
import type { Vector } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";

const MOST = 8;

interface Props {
  readonly values: Vector;
  readonly tone?: string;
  /** Decimals; what the vectors above and below have. */
  readonly places?: number;
}

/** [1 0 1 0], the middle of a long one left out. */
export function RowVector({ values, tone, places = placesOf(values) }: Props) {
  const isLong = values.length > MOST;
  const shown = isLong ? [...values.slice(0, MOST - 1), values.at(-1) as number] : values;
  return (
    <span class={`learn-vector figure ${tone ?? ""}`}>
      [
      {shown.map((value, n) => (
        <span key={n}>
          {n > 0 && " "}
          {isLong && n === MOST - 1 && "… "}
          <Figure value={value} places={places} />
        </span>
      ))}
      ]
    </span>
  );
}
