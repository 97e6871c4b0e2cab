import { count } from "../../maths/format";
import { amend } from "../../shell/address";

interface Props {
  readonly counts: Readonly<Record<string, number>>;
  readonly chosen: string;
}

/** How many heads have each label; one of them shows those alone. */
export function Chips({ counts, chosen }: Props) {
  const all = Object.entries(counts);
  return (
    <fieldset class="find-chips" data-part="label-chips">
      <legend class="unseen">Show the heads with one label</legend>
      <button
        type="button"
        aria-pressed={chosen === ""}
        onClick={() => amend({ label: undefined })}
      >
        all
      </button>
      {all.map(([label, heads]) => (
        <button
          key={label}
          type="button"
          data-label={label}
          aria-pressed={chosen === label}
          onClick={() => amend({ label: chosen === label ? undefined : label })}
        >
          {label}{" "}
          <span class="soft" data-value={heads}>
            {count(heads)}
          </span>
        </button>
      ))}
    </fieldset>
  );
}
