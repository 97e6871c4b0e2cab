import { count } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import type { Reading } from "./reading";

/** step 40; steps 40–47 */
export function StepWords({ first, last }: { readonly first: number; readonly last: number }) {
  return (
    <span data-part="reading-step" data-value={first}>
      {first === last ? `step ${count(first)}` : `steps ${count(first)}–${count(last)}`}
    </span>
  );
}

/** One head at one step, in words and numbers. */
export function ReadingLine({ label, reading }: { label: string; reading: Reading }) {
  const isBin = reading.first !== reading.last;
  return (
    <>
      <strong>{label}</strong> <StepWords {...reading} />: {isBin && "mean "}
      <Figure value={reading.mean} />
      {isBin && (
        <>
          , from <Figure value={reading.least} /> to <Figure value={reading.largest} />
        </>
      )}
    </>
  );
}
