import { count } from "../maths/format";
import { linkTo, place } from "../shell/address";
import type { Stack } from "./api";
import { type Chosen, cuts, labelOf, mode, toggleEdge } from "./place";
import { quoted, tokenText } from "./spelling";
import type { Heavy } from "./weights";

const TOLD = 6;

interface Props {
  readonly stack: Stack;
  readonly texts: readonly string[];
  readonly row: number;
  readonly heavy: readonly Heavy[];
  readonly at: Chosen;
}

/** What the word reads, in words: each weight can be explained, each edge cut. */
export function Reads({ stack, texts, row, heavy, at }: Props) {
  const how = mode.value;
  const who = how === "head" ? labelOf(at) : how === "layer" ? `layer ${at.layer}` : "rollout";
  const isSelf = stack.rows === stack.keys;
  const own = how === "head" ? labelOf(at) : "";
  const gone = cuts.value.filter((one) => one[0] === row);
  const shown = heavy.slice(0, TOLD);
  return (
    <section class="play-reads" aria-label="What the word reads" data-part="reads">
      <h2>
        {quoted(texts[row])} <span class="soft">(word {count(row + 1)}) reads, in </span>
        <span class="figure" data-part="at">
          {who}
        </span>
      </h2>
      <p class="unseen" role="status">
        {`${who}: ${shown.map(({ key, weight }) => `${texts[key]?.trim()} ${weight.toFixed(2)}`).join(", ")}`}
      </p>
      {how === "rollout" && (
        <p class="soft play-small">
          Through all layers, half of each being the word itself. In a causal model this drifts to
          the first word: read it as paths, not as importance.
        </p>
      )}
      <ul class="play-keys">
        {shown.map(({ key, weight }) => (
          <li key={key} data-part="read-key" data-key={key} data-value={String(weight)}>
            <span class="play-key-word">{tokenText(texts[key] ?? "", key)}</span>
            <span class="play-bar-track" aria-hidden="true">
              <span class="weight-bar" style={{ width: `${100 * weight}%` }} />
            </span>
            {how === "head" && isSelf ? (
              <a
                class="figure"
                title="Explain this number: the lesson with this head's own q, k and scores"
                data-part="explain"
                href={linkTo({
                  ...place.value,
                  view: "lesson",
                  at: own,
                  pin: String(row),
                  key: String(key),
                  step: "8",
                })}
              >
                {weight.toFixed(3)}
              </a>
            ) : (
              <span class="figure">{weight.toFixed(3)}</span>
            )}
            {isSelf && how !== "rollout" && (
              <button
                type="button"
                class="quiet play-cut"
                title={`${quoted(texts[row])} may not attend to ${quoted(texts[key])}, in ${own || "every head"}`}
                aria-label={`Cut the edge to ${texts[key]?.trim()} in ${own || "every head"}`}
                data-part="cut"
                onClick={() => toggleEdge(row, key, own)}
              >
                ✂
              </button>
            )}
          </li>
        ))}
        {gone.map(([query, key, head]) => (
          <li key={`gone-${key}-${head}`} class="is-gone" data-part="gone-key">
            <span class="play-key-word">{tokenText(texts[key] ?? "")}</span>
            <span class="soft">may not be read {head ? `in ${head}` : "in any head"}</span>
            <button type="button" class="quiet" onClick={() => toggleEdge(query, key, head)}>
              restore
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
