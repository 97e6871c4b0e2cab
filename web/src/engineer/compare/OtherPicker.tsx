import { go } from "../../shell/address";
import type { Overview } from "../../source/answers";
import type { Where } from "../../source/source";
import type { Choice } from "../PromptPicker";
import { comparePlace } from "../places";

interface Props {
  readonly where: Where;
  readonly overview: Overview;
  readonly others: readonly Choice[];
  readonly chosen: Where | null;
}

const keyOf = (one: Where) => `${one.recording}/${one.prompt}`;

/** With what. */
export function OtherPicker({ where, overview, others, chosen }: Props) {
  const several = overview.prompts.length > 1 ? `, prompt ${where.prompt},` : "";
  return (
    <p class="comp-picker">
      <label>
        <strong>{overview.name}</strong>
        {several} with{" "}
        <select
          data-part="other-picker"
          value={chosen ? keyOf(chosen) : ""}
          onChange={(event) => {
            const found = others.find((one) => keyOf(one) === event.currentTarget.value);
            if (found) go(comparePlace(where, found));
          }}
        >
          {!chosen && <option value="">choose</option>}
          {others.map((one) => (
            <option key={keyOf(one)} value={keyOf(one)}>
              {one.text}
            </option>
          ))}
        </select>
      </label>
    </p>
  );
}
