import { figure } from "../../maths/format";
import type { Vector } from "../../maths/matrix";

interface Props {
  readonly weights: Vector;
  readonly labels: readonly string[];
  /** Which of them are shown; all where none are named. */
  readonly keys?: readonly number[];
}

const WITH_TEXT = 6; // weights

/** At most so many keys: those that get most in any of the rows, in their own order. */
export function heaviest(rows: readonly Vector[], most: number): number[] {
  const largest = (c: number) => Math.max(...rows.map((row) => row[c] ?? 0));
  const all = (rows[0] ?? []).map((_, c) => c);
  const byWeight = [...all].sort((a, b) => largest(b) - largest(a));
  return byWeight.slice(0, most).sort((a, b) => a - b);
}

/** One row of weights as bars, each with its number where there is room. */
export function WeightStrip({ weights, labels, keys }: Props) {
  const shown = keys ?? weights.map((_, c) => c);
  const withText = shown.length <= WITH_TEXT;
  return (
    <ol class="lab-strip">
      {shown.map((c) => {
        const weight = weights[c] ?? 0;
        return (
          <li key={c} data-value={String(weight)} title={`${labels[c]}: ${weight}`}>
            <span class="lab-column">
              <i class="lab-level" aria-hidden="true" style={{ height: `${100 * weight}%` }} />
              {withText && <span class="figure">{figure(weight, 2)}</span>}
            </span>
            {withText && <span class="soft">{labels[c]}</span>}
          </li>
        );
      })}
    </ol>
  );
}
