import { placesOf } from "../../maths/format";
import { Figure } from "../../parts/Figure";

/** A number that stands alone: with as few decimals as it can be told with. */
export function Tidy({ value, class: name }: { value: number; class?: string }) {
  return <Figure value={value} places={placesOf([value])} class={name ?? ""} />;
}
