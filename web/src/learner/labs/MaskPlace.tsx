import { useSignal } from "@preact/signals";
import type { Vector } from "../../maths/matrix";
import { softmax } from "../../maths/softmax";
import { Figure } from "../../parts/Figure";
import type { LessonState } from "../state";
import { Choice, Lab } from "./Lab";
import { RowOf } from "./Numbers";

export type Place = "before" | "after" | "zero";

const PLACES: readonly { readonly value: Place; readonly text: string }[] = [
  { value: "before", text: "−∞ before softmax" },
  { value: "after", text: "0 after softmax" },
  { value: "zero", text: "0 before softmax" },
];
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
    <Lab part="mask-place" title="Where does −∞ go?">
      <p>
        A causal row sees itself and what is before it: <b>{labels[row]}</b> may not see{" "}
        {labels.slice(seen).join(", ")}.
      </p>
      <Choice
        part="places"
        words="Hide later tokens with"
        options={PLACES}
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
        raise the hidden scores by {RAISED}
      </label>
      <dl class="lab-compare" data-part="mask-outcome" data-leak={String(leak > 1e-9)}>
        <dt>weights</dt>
        <dd class="weight">
          <RowOf values={weights} />
        </dd>
        <dt>sum of the visible ones</dt>
        <dd data-part="visible-sum">
          <Figure value={sum} />
        </dd>
      </dl>
      <p role="status">{verdict(place.value, raised.value, sum)}</p>
    </Lab>
  );
}

function verdict(place: Place, isRaised: boolean, sum: number): string {
  if (place === "before") {
    return "Right: e to −∞ is 0, the visible weights sum to 1, and hidden scores change nothing. Raise them and see.";
  }
  const lost = `The visible weights sum to ${sum.toFixed(4)}`;
  const leak = isRaised
    ? "and they have changed with scores that they may not know: the future leaks in."
    : "because hidden tokens are still in the denominator. Raise the hidden scores and see.";
  if (place === "after") return `Wrong: ${lost}, ${leak}`;
  return isRaised
    ? `Wrong: e⁰ is 1, not 0. ${lost}: a score of 0 is an ordinary score, whatever was hidden.`
    : `Wrong: e⁰ is 1, not 0. ${lost}; the hidden tokens get the rest.`;
}
