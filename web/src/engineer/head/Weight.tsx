import { short } from "../../maths/format";
import { Figure } from "../../parts/Figure";

const SMALL = 1e-3;

/** A weight with the digits that tell it from others: small ones in powers of ten. */
export function Weight({ value }: { value: number }) {
  if (value >= SMALL || value === 0) return <Figure value={value} places={6} class="weight" />;
  return (
    <span class="figure weight" data-value={String(value)} title={String(value)}>
      {short(value)}
    </span>
  );
}
