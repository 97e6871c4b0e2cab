import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { count } from "../../maths/format";
import type { Worked } from "../../maths/lesson";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
import { HeatLegend, HeatMap } from "../parts/HeatMap";
import type { LessonState } from "../state";
import { Choice, Lab } from "./Lab";
import { Numbers, RowOf } from "./Numbers";
import { drawnSplits, parametersOf, type Split, workSplit } from "./splits";

const SEED = 4;

/** The same projections cut into 1, 2 and 4 heads: as many parameters, more ways to look. */
export function HeadsAtConstantCost({ state }: { state: LessonState }) {
  const isDrawn = useSignal(false);
  const own = state.lesson.splits;
  const drawn = useMemo(() => drawnSplits(own, SEED), [own]);
  const splits = isDrawn.value ? drawn : own;
  const chosen = useSignal(Math.min(1, splits.length - 1));
  const split = splits[chosen.value];
  if (!split) return null;
  const worked = workSplit(state, split);
  return (
    <Lab part="heads-lab" title={say("lab_heads.title")}>
      <p>{say("lab_heads.text")}</p>
      <div class="lab-controls">
        <Choice
          part="heads-choice"
          words={say("lab_heads.heads")}
          options={splits.map((one, n) => ({ value: n, text: String(one.heads.length) }))}
          chosen={chosen.value}
          choose={(value) => {
            chosen.value = value;
          }}
        />
        <Choice
          part="heads-projections"
          words={say("lab_heads.projections")}
          options={[
            { value: "own", text: say("lab_heads.own") },
            { value: "drawn", text: say("lab_heads.random") },
          ]}
          chosen={isDrawn.value ? "drawn" : "own"}
          choose={(value) => {
            isDrawn.value = value === "drawn";
          }}
        />
      </div>
      <Cost split={split} />
      <Maps worked={worked} state={state} />
      <HeatLegend count={state.lesson.labels.length} />
      <Mixed worked={worked} split={split} state={state} />
      <p class="soft" data-part="heads-words">
        {lookAlike(worked)
          ? say("lab_heads.words_alike", { words: split.words })
          : say("lab_heads.words", { words: split.words })}
      </p>
    </Lab>
  );
}

/** Whether several heads have the same weights, as the notes' vectors, which repeat, give them. */
function lookAlike({ heads }: Worked): boolean {
  const first = JSON.stringify(heads[0]?.weights);
  return heads.length > 1 && heads.every((head) => JSON.stringify(head.weights) === first);
}

function Cost({ split }: { split: Split }) {
  const heads = split.heads.length;
  const width = split.w_o.length;
  const d_k = split.heads[0]?.w_k[0]?.length ?? 1;
  return (
    <p class="lab-cost" data-part="parameter-count">
      <Say
        name="lab_heads.parameters"
        with={{
          sum: `${heads} × 3 × (${width} × ${d_k}) + ${width} × ${width}`,
          total: (
            <b class="figure lab-total" data-value={String(parametersOf(split))}>
              {count(parametersOf(split))}
            </b>
          ),
          d_k: <Figure value={d_k} places={0} />,
        }}
      />
    </p>
  );
}

function Maps({ worked, state }: { worked: Worked; state: LessonState }) {
  const { labels } = state.lesson;
  return (
    <div class="lab-maps">
      {worked.heads.map((head, h) => (
        <figure key={h} data-part="head-map">
          <figcaption>{say("lab_heads.head", { number: h + 1 })}</figcaption>
          <HeatMap
            isSmall
            title={say("lab_heads.weights_of", { number: h + 1 })}
            weights={head.weights}
            labels={labels}
            causal={state.given.value.causal}
            mark={state.focus.value}
          />
        </figure>
      ))}
    </div>
  );
}

function Mixed(props: { worked: Worked; split: Split; state: LessonState }) {
  const { worked, split, state } = props;
  const i = state.focus.value;
  const name = state.lesson.labels[i];
  return (
    <div class="lab-lines" data-part="concat">
      {worked.heads.map((head, h) => (
        <p key={h}>
          <span class="soft">{say("lab_heads.found", { number: h + 1 })}</span>{" "}
          <RowOf values={head.context[i] ?? []} class="v" />
        </p>
      ))}
      <p>
        <span class="soft">{say("lab_heads.concat_row", { name: name ?? "" })}</span>{" "}
        <RowOf values={worked.concat[i] ?? []} />
      </p>
      <details>
        <summary>
          w_o, {split.w_o.length} × {split.w_o.length}
        </summary>
        <Numbers title={say("lab_heads.w_o")} values={split.w_o} />
      </details>
      <p>
        <span class="soft">{say("lab_heads.output")}</span>{" "}
        <b>
          <RowOf values={worked.output[i] ?? []} />
        </b>
      </p>
    </div>
  );
}
