import { useSignal } from "@preact/signals";
import { allRows, type HeadRows, largestDifference, rowFromCache } from "../../maths/cache";
import { placesOf } from "../../maths/format";
import { multiply } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { Notice } from "../../parts/Notice";
import { Say, say } from "../language";
import { RowVector } from "../parts/RowVector";
import type { LessonState } from "../state";

const SAME = 1e-12;
const MOST_ROWS = 12;

/** Queries, keys and values of the head as the lesson has them, with every number put in by hand up
 * to the projections. */
function rowsOf(state: LessonState): HeadRows {
  const { x } = state.worked.value;
  const { w_q, w_k, w_v } = state.worksOn.value;
  return { queries: multiply(x, w_q), keys: multiply(x, w_k), values: multiply(x, w_v) };
}

/** Token after token: what is computed, what is kept, and that nothing else changes. */
export function Generation({ state }: { state: LessonState }) {
  const { labels } = state.lesson;
  const at = useSignal(Math.max(Math.ceil(labels.length / 2), 1));
  const causal = useSignal(true);
  const t = Math.min(at.value, labels.length) - 1;
  const token = labels[t] ?? "";
  const isLast = t === labels.length - 1;
  if (labels.length < 2) return <Notice kind="info">{say("cache.one_token")}</Notice>;
  const rows = rowsOf(state);
  const { scaled } = state.given.value;
  const fromCache = rowFromCache(rows, t, scaled);
  const fromAll = allRows(rows, { scaled, causal: causal.value }).context[t] ?? [];
  const difference = largestDifference(fromCache, fromAll);
  const isSame = difference < SAME;
  const places = placesOf([...fromCache, ...fromAll]);
  return (
    <section data-part="generation">
      <p>
        <Say name="cache.lead" />
      </p>
      <label class="lab-slider">
        <span>{say("cache.arrived", { token, t: t + 1, count: labels.length })}</span>
        <input
          type="range"
          min={1}
          max={labels.length}
          step={1}
          aria-label={say("cache.token")}
          data-part="cache-slider"
          value={t + 1}
          onInput={(event) => {
            at.value = Number(event.currentTarget.value);
          }}
        />
      </label>
      <CacheTable state={state} t={t} />
      <button
        type="button"
        role="switch"
        class="learn-toggle"
        aria-checked={causal.value}
        data-part="cache-causal"
        onClick={() => {
          causal.value = !causal.value;
        }}
      >
        <i class="learn-switch" aria-hidden="true" />
        {say("cache.causal")}
      </button>
      <dl class="story-rows" data-part="cache-rows" data-same={String(isSame)}>
        <dt>{say("cache.from_cache", { token })}</dt>
        <dd>
          <RowVector values={fromCache} tone="output" places={places} />
        </dd>
        <dt>{say("cache.from_all")}</dt>
        <dd>
          <RowVector values={fromAll} tone="output" places={places} />
        </dd>
        <dt>{say("cache.difference")}</dt>
        <dd class={isSame ? "story-good" : "story-bad"} data-part="cache-difference">
          <Figure value={isSame ? 0 : difference} places={isSame ? 0 : 4} />
        </dd>
      </dl>
      <p role="status">
        {isSame && (causal.value || !isLast) && say("cache.same")}
        {isSame && !causal.value && isLast && say("cache.same_last")}
        {!isSame && say("cache.differs", { token })}
      </p>
    </section>
  );
}

type Kind = "new" | "cached" | "unneeded" | "waiting";

/** q, k and v of every token: computed now, kept, not needed, or not there yet. */
function CacheTable({ state, t }: { state: LessonState; t: number }) {
  const { labels } = state.lesson;
  const first = Math.max(Math.min(t - MOST_ROWS + 3, labels.length - MOST_ROWS), 0);
  const shown = labels.map((_, n) => n).slice(first, first + MOST_ROWS);
  const kind = (n: number, name: "q" | "k" | "v"): Kind => {
    if (n > t) return "waiting";
    if (n === t) return "new";
    return name === "q" ? "unneeded" : "cached";
  };
  return (
    <div class="scroll">
      <table class="story-cache" data-part="cache-table">
        <caption>{say("cache.table", { token: labels[t] ?? "" })}</caption>
        <thead>
          <tr>
            <td />
            {(["q", "k", "v"] as const).map((name) => (
              <th key={name} scope="col" class={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((n) => (
            <tr key={n}>
              <th scope="row">{labels[n]}</th>
              {(["q", "k", "v"] as const).map((name) => (
                <td key={name}>
                  <span class={`story-kept ${name} is-${kind(n, name)}`} data-kind={kind(n, name)}>
                    {say(`cache.${kind(n, name)}`)}
                  </span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
