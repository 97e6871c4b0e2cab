import { useSignal } from "@preact/signals";
import { lookup } from "../../maths/lookup";
import { multiply } from "../../maths/matrix";
import { Say, say } from "../language";
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
    <Lab part="soft-lookup" title={say("lab_lookup.title")}>
      <p>
        <Say name="lab_lookup.text" with={{ name: label }} />
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
        <Say
          name="lab_lookup.output"
          with={{ values: <RowOf class="v" values={multiply([weights], values)[0] ?? []} /> }}
        />
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
  if (sharpness === 0) return say("lab_lookup.zero");
  if (sharpness === 1) return say("lab_lookup.one");
  if (Number.isFinite(sharpness)) return say("lab_lookup.between");
  const winners = weights.filter((weight) => weight > 0).length;
  return winners > 1 ? say("lab_lookup.tie", { winners }) : say("lab_lookup.dictionary");
}
