import { useSignal } from "@preact/signals";
import { cacheBytes } from "../../maths/cache";
import { count, short } from "../../maths/format";
import { say } from "../language";
import type { LessonState } from "../state";

const STEP = 64; // tokens

/** 188.7 MB: the unit that keeps three digits. */
export function bytesInWords(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  const at = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  return `${short(bytes / 1000 ** at)} ${units[at]}`;
}

/** How much memory the cache of a real model takes. */
export function CacheMemory({ state }: { state: LessonState }) {
  const found = state.lesson.next_words;
  const tokens = useSignal(1024);
  if (!found) return null;
  const { layers, heads, key_heads, d, bytes, tokens: most } = found.cache;
  const total = cacheBytes(found.cache, tokens.value);
  const whole = cacheBytes({ ...found.cache, key_heads: heads }, tokens.value);
  const factors = [
    ["2", say("cache.bytes_k_and_v")],
    [`${layers}`, say("cache.bytes_layers")],
    [`${key_heads}`, say("cache.bytes_key_heads")],
    [`${d}`, "d"],
    [count(tokens.value), say("cache.bytes_tokens_short")],
    [`${bytes}`, say("cache.bytes_each")],
  ] as const;
  return (
    <section data-part="cache-memory">
      <h3>{say("cache.bytes_title")}</h3>
      <p>{say("cache.bytes_lead", { model: found.model, layers, key_heads, d, bytes })}</p>
      <label class="lab-slider">
        <span>
          {say("cache.bytes_tokens")} <b class="figure">{count(tokens.value)}</b>
        </span>
        <input
          type="range"
          min={STEP}
          max={most}
          step={STEP}
          data-part="cache-tokens"
          value={tokens.value}
          onInput={(event) => {
            tokens.value = Number(event.currentTarget.value);
          }}
        />
      </label>
      <p class="story-factors">
        {factors.map(([value, name], n) => (
          <span key={n} class="story-factor-with">
            {n > 0 && <span aria-hidden="true">×</span>}
            <span class="story-factor">
              <b class="figure">{value}</b>
              <small class="soft">{name}</small>
            </span>
          </span>
        ))}
        <span aria-hidden="true">=</span>
        <b class="story-bytes" data-part="cache-bytes" data-value={total}>
          {bytesInWords(total)}
        </b>
      </p>
      <div class="story-memory" aria-hidden="true">
        <i style={{ width: `${(100 * tokens.value) / most}%` }} />
      </div>
      <p class="soft">
        {say("cache.bytes_grouped", {
          heads,
          key_heads,
          more: bytesInWords(whole),
          times: short(whole / total),
        })}
      </p>
    </section>
  );
}
