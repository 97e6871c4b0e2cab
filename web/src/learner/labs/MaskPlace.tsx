import { useSignal } from "@preact/signals";
import type { Vector } from "../../maths/matrix";
import { softmax } from "../../maths/softmax";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
import type { LessonState } from "../state";
import { Choice, Lab } from "./Lab";
import { RowOf } from "./Numbers";

export type Place = "before" | "after" | "zero";

const PLACES: readonly Place[] = ["before", "after", "zero"];
const RAISED = 2;

/** The weights of a row that may see its first `seen` keys, by where the mask is put. */
export function maskedRow(scores: Vector, seen: number, place: Place): number[] {
  if (place === "after") return softmax(scores).map((weight, key) => (key < seen ? weight : 0));
  const hidden = place === "before" ? Number.NEGATIVE_INFINITY : 0;
  return softmax(scores.map((score, key) => (key < seen ? score : hidden)));
}

/** Where −∞ goes: two other places that look as good, and what is wrong with them. */
export function MaskPlace({ state }: { state: LessonState }) {
  const place = useSignal<Place>("before");
  const raised = useSignal(false);
  const { scaled } = state.worksOn.value;
  const { labels } = state.lesson;
  const row = Math.min(state.focus.value, labels.length - 2); // one that has something to hide
  const scores = scaled[row] ?? [];
  if (labels.length < 2) return null;
  const seen = row + 1;
  const change = raised.value ? RAISED : 0;
  const now = scores.map((score, key) => (key < seen ? score : score + change));
  const weights = maskedRow(now, seen, place.value);
  const without = maskedRow(scores, seen, place.value);
  const sum = weights.slice(0, seen).reduce((total, weight) => total + weight, 0);
  const leak = Math.max(
    ...weights.slice(0, seen).map((w, key) => Math.abs(w - (without[key] ?? 0))),
  );
  return (
    <Lab part="mask-place" title={say("lab_mask.title")}>
      <p>
        <Say
          name="lab_mask.text"
          with={{ name: labels[row], later: labels.slice(seen).join(say("list.comma")) }}
        />
      </p>
      <Choice
        part="places"
        words={say("lab_mask.hide_with")}
        options={PLACES.map((value) => ({ value, text: say(`lab_mask.${value}`) }))}
        chosen={place.value}
        choose={(value) => {
          place.value = value;
        }}
      />
      <label class="lab-check">
        <input
          type="checkbox"
          checked={raised.value}
          data-part="raise"
          onChange={(event) => {
            raised.value = event.currentTarget.checked;
          }}
        />
        {say("lab_mask.raise", { number: RAISED })}
      </label>
      <dl class="lab-compare" data-part="mask-outcome" data-leak={String(leak > 1e-9)}>
        <dt>{say("symbol.weights")}</dt>
        <dd class="weight">
          <RowOf values={weights} />
        </dd>
        <dt>{say("lab_mask.visible_sum")}</dt>
        <dd data-part="visible-sum">
          <Figure value={sum} />
        </dd>
      </dl>
      <p role="status">{verdict(place.value, raised.value, sum)}</p>
    </Lab>
  );
}

function verdict(place: Place, isRaised: boolean, visible: number): string {
  if (place === "before") return say("lab_mask.verdict_before");
  const sum = visible.toFixed(4);
  if (place === "after") {
    return isRaised
      ? say("lab_mask.verdict_after_raised", { sum })
      : say("lab_mask.verdict_after", { sum });
  }
  return isRaised
    ? say("lab_mask.verdict_zero_raised", { sum })
    : say("lab_mask.verdict_zero", { sum });
}
