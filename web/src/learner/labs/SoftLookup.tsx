import { useSignal } from "@preact/signals";
import { lookup } from "../../maths/lookup";
import { multiply } from "../../maths/matrix";
import type { LessonState } from "../state";
import { Lab } from "./Lab";
import { RowOf } from "./Numbers";
import { WeightStrip } from "./WeightStrip";

const SHARPNESS = [0, 0.25, 0.5, 1, 2, 4, 8, 16, Number.POSITIVE_INFINITY];
const START = 3;
const MOST = 12; // keys that are drawn

/** A dictionary returns one value; attention returns a mixture. One slider leads from one to the
 * other. */
export function SoftLookup({ state }: { state: LessonState }) {
  const place = useSignal(START);
  const sharpness = SHARPNESS[place.value] ?? 1;
  const { masked, values } = state.worksOn.value;
  const scores = masked[state.focus.value] ?? [];
  const weights = lookup(scores, sharpness);
  const label = state.lesson.labels[state.focus.value];
  const shown = weights.map((_, key) => key).slice(0, MOST);
  return (
    <Lab part="soft-lookup" title="From a dictionary to attention">
      <p>
        A dictionary compares a query with every key and returns the value of the one that matches.
        Softmax returns all values, each by its weight. Multiply the scores of <b>{label}</b> by β
        first and turn it up:
      </p>
      <label class="lab-slider">
        <span>β = {named(sharpness)}</span>
        <input
          type="range"
          min={0}
          max={SHARPNESS.length - 1}
          step={1}
          value={place.value}
          aria-valuetext={`β = ${named(sharpness)}`}
          data-part="sharpness-slider"
          onInput={(event) => {
            place.value = Number(event.currentTarget.value);
          }}
        />
      </label>
      <WeightStrip weights={weights} labels={state.lesson.labels} keys={shown} />
      <p>
        Output: <RowOf class="v" values={multiply([weights], values)[0] ?? []} />
      </p>
      <p class="soft" role="status" data-part="lookup-verdict">
        {verdict(sharpness, weights)}
      </p>
    </Lab>
  );
}

function named(sharpness: number): string {
  return Number.isFinite(sharpness) ? String(sharpness) : "∞";
}

function verdict(sharpness: number, weights: readonly number[]): string {
  if (sharpness === 0)
    return "β = 0: nothing is compared, and the output is the mean of all values.";
  if (Number.isFinite(sharpness)) {
    return sharpness === 1
      ? "β = 1 is attention: every key takes part, and a gradient reaches each of them."
      : "Between the two. Every key still takes part, so every key can still learn.";
  }
  const winners = weights.filter((weight) => weight > 0).length;
  return winners > 1
    ? `β = ∞ is a dictionary, but ${winners} keys match equally well and share. The output jumps when a score changes past another: no gradient.`
    : "β = ∞ is a dictionary: one value, unchanged. The output jumps when a score changes past another: no gradient, nothing to learn from.";
}
