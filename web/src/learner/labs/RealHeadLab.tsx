import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Figure } from "../../parts/Figure";
import { Notice } from "../../parts/Notice";
import type { RealHead } from "../data";
import { Say, say, sayPhrase } from "../language";
import { HeatLegend, HeatMap } from "../parts/HeatMap";
import type { LessonState } from "../state";
import { Lab } from "./Lab";
import { realWeights, startRow } from "./realWeights";

const TOP = 5;
const RECORD = 'regard record smollm2 --text "…"';
const VIEW = "regard view run.regard";

/** A real head of a real model, computed here from its own q and k. */
export function RealHeadLab({ state }: { state: LessonState }) {
  const { real } = state.lesson;
  if (real) return <Head real={real} />;
  return (
    <Lab part="real-head" title={say("real_head.name")}>
      <Notice kind="info">
        <Say
          name="real_head.none"
          with={{
            record: <code>{RECORD}</code>,
            view: <code>{VIEW}</code>,
          }}
        />
      </Notice>
    </Lab>
  );
}

function Head({ real }: { real: RealHead }) {
  const row = useSignal(startRow(real));
  const names = useMemo(() => real.tokens.map(spelt), [real]);
  const { scores, scaled, weights } = useMemo(() => realWeights(real), [real]);
  const i = row.value;
  const own = weights[i] ?? [];
  const token = real.tokens[i] ?? "";
  const d_k = real.queries[0]?.length ?? 1;
  return (
    <Lab part="real-head" title={say("real_head.of", { label: real.label, model: real.model })}>
      <p data-part="real-words">{sayPhrase(real.words)}</p>
      <p class="soft">{say("real_head.choose", { tokens: real.tokens.length, d_k })}</p>
      <ol class="lab-tokens" data-part="real-tokens">
        {real.tokens.map((text, j) => (
          <li key={j}>
            <button
              type="button"
              aria-pressed={j === i}
              class={j > i && real.causal ? "is-hidden" : ""}
              data-value={String(own[j] ?? 0)}
              style={{ background: shadeOf(own[j] ?? 0) }}
              title={say("real_head.weight", { weight: own[j] ?? 0 })}
              onClick={() => {
                row.value = j;
              }}
            >
              {spelt(text)}
            </button>
          </li>
        ))}
      </ol>
      <div class="lab-split">
        <Top real={real} i={i} scores={scores[i] ?? []} scaled={scaled[i] ?? []} weights={own} />
        <figure>
          <figcaption>{say("real_head.all", { name: token.trim() })}</figcaption>
          <HeatMap
            title={say("real_head.weights_of", { label: real.label })}
            weights={weights}
            labels={names}
            causal={real.causal}
            mark={i}
          />
          <HeatLegend count={real.tokens.length} />
        </figure>
      </div>
      <p class="soft">{say("real_head.caution")}</p>
    </Lab>
  );
}

/** Without the space that a token begins with. */
function spelt(token: string): string {
  return token.trim() || "␣";
}

function shadeOf(weight: number): string {
  return `rgb(var(--shade) / ${Math.min(0.9, weight).toFixed(3)})`;
}

interface TopProps {
  readonly real: RealHead;
  readonly i: number;
  readonly scores: readonly number[];
  readonly scaled: readonly number[];
  readonly weights: readonly number[];
}

function Top({ real, i, scores, scaled, weights }: TopProps) {
  const order = weights.map((_, j) => j).filter((j) => !real.causal || j <= i);
  const top = order.sort((a, b) => (weights[b] ?? 0) - (weights[a] ?? 0)).slice(0, TOP);
  const rest = order.slice(TOP).reduce((sum, j) => sum + (weights[j] ?? 0), 0);
  return (
    <div class="scroll">
      <table class="lab-top" data-part="real-top">
        <caption>
          {say("real_head.where", { name: real.tokens[i]?.trim() ?? "", number: i + 1 })}
        </caption>
        <thead>
          <tr>
            <th scope="col">{say("symbol.key")}</th>
            <th scope="col">q·k</th>
            <th scope="col">÷ √d_k</th>
            <th scope="col" class="weight">
              {say("symbol.weight")}
            </th>
          </tr>
        </thead>
        <tbody>
          {top.map((j) => (
            <tr key={j}>
              <th scope="row">
                <span class="soft">{j > 0 ? `${real.tokens[j - 1]?.trim()} ` : ""}</span>
                {real.tokens[j]?.trim()} <span class="soft">({j + 1})</span>
              </th>
              {[scores[j], scaled[j], weights[j]].map((value, n) => (
                <td key={n}>
                  <Figure value={value ?? 0} places={n === 2 ? 4 : 2} />
                </td>
              ))}
            </tr>
          ))}
          {order.length > TOP && (
            <tr>
              <th scope="row" class="soft">
                {say("count.others", { count: order.length - TOP })}
              </th>
              <td />
              <td />
              <td>
                <Figure value={rest} />
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}
