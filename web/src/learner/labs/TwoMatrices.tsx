import { type Signal, useSignal } from "@preact/signals";
import { type Matrix, multiply, transpose } from "../../maths/matrix";
import { rank } from "../../maths/rank";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
import { Pick } from "../parts/controls";
import type { LessonState } from "../state";
import { Choice, Lab } from "./Lab";
import { Numbers } from "./Numbers";

type Keys = "own" | "same";

function firstColumns(matrix: Matrix, count: number): Matrix {
  return matrix.map((row) => row.slice(0, count));
}

/** What the two projections are together, with `width` of their columns. */
export function together(w_q: Matrix, w_k: Matrix, width: number): number[][] {
  return multiply(firstColumns(w_q, width), transpose(firstColumns(w_k, width)));
}

/** Scores need only w_q · w_kᵀ. Why are there two matrices, and why two different ones? */
export function TwoMatrices({ state }: { state: LessonState }) {
  const { w_q, w_k } = state.worksOn.value;
  const d_k = w_q[0]?.length ?? 1;
  const columns = useSignal(d_k);
  const keys = useSignal<Keys>("own");
  const width = Math.min(columns.value, d_k);
  const used = keys.value === "same" ? w_q : w_k;
  const product = together(w_q, used, width);
  return (
    <Lab part="two-matrices" title={say("lab_matrices.title")}>
      <p>{say("lab_matrices.text")}</p>
      <Width columns={columns} d_k={d_k} width={width} />
      <div class="lab-controls">
        <Numbers part="product" title="w_q · w_kᵀ" values={product} />
        <Sizes width={width} d={w_q.length} rank={rank(product)} />
      </div>
      <Choice
        part="keys-choice"
        words={say("lab_matrices.why_not")}
        options={[
          { value: "own", text: say("lab_matrices.own") },
          { value: "same", text: "w_k = w_q" },
        ]}
        chosen={keys.value}
        choose={(value) => {
          keys.value = value;
        }}
      />
      <BothWays
        state={state}
        product={product}
        start={mostUneven(scoresOf(state, together(w_q, w_k, d_k)), state.focus.value)}
        isSame={keys.value === "same"}
      />
    </Lab>
  );
}

function Width(props: { columns: Signal<number>; d_k: number; width: number }) {
  return (
    <label class="lab-slider">
      <span>
        d_k = <Figure value={props.width} places={0} />
      </span>
      <input
        type="range"
        min={1}
        max={props.d_k}
        step={1}
        value={props.width}
        aria-valuetext={say("lab_matrices.columns", { columns: props.width })}
        data-part="width-slider"
        onInput={(event) => {
          props.columns.value = Number(event.currentTarget.value);
        }}
      />
    </label>
  );
}

function Sizes({ width, d, rank: found }: { width: number; d: number; rank: number }) {
  return (
    <dl class="lab-compare" data-part="sizes">
      <dt>{say("lab_matrices.both")}</dt>
      <dd>
        2 · {d} · {width} = <Figure value={2 * d * width} places={0} />
      </dd>
      <dt>{say("lab_matrices.one")}</dt>
      <dd>
        {d} · {d} = <Figure value={d * d} places={0} />
      </dd>
      <dt>{say("lab_matrices.rank")}</dt>
      <dd>
        <Say
          name="lab_matrices.rank_of"
          with={{ rank: <Figure value={found} places={0} />, width: d }}
        />
      </dd>
      <dt>{say("lab_matrices.large")}</dt>
      <dd>{say("lab_matrices.large_numbers")}</dd>
    </dl>
  );
}

/** x · product · xᵀ */
function scoresOf(state: LessonState, product: Matrix): Matrix {
  const { x } = state.worked.value;
  return multiply(multiply(x, product), transpose(x));
}

const EVEN = 1e-9;

/** The pair whose scores differ most both ways: with the token that is spelt out where there is
 * one, else any; where all are even, that token and one beside it. */
export function mostUneven(scores: Matrix, focus: number): readonly [from: number, to: number] {
  let [from, to, most] = [focus, focus, EVEN];
  const look = (i: number) =>
    scores.forEach((_, j) => {
      const apart = Math.abs((scores[i]?.[j] ?? 0) - (scores[j]?.[i] ?? 0));
      if (apart > most + EVEN) [from, to, most] = [i, j, apart];
    });
  look(focus);
  for (let i = 0; from === to && i < scores.length; i += 1) look(i);
  if (from !== to) return [from, to];
  return [focus, focus > 0 ? focus - 1 : Math.min(1, scores.length - 1)];
}

interface WaysProps {
  readonly state: LessonState;
  readonly product: Matrix;
  /** The pair to begin with. */
  readonly start: readonly [from: number, to: number];
  readonly isSame: boolean;
}

/** The score from one token to another and back. */
function BothWays({ state, product, start, isSame }: WaysProps) {
  const other = useSignal<number | null>(null);
  const { labels } = state.lesson;
  const from = start[0];
  const to = Math.min(other.value ?? start[1], labels.length - 1);
  const scores = scoresOf(state, product);
  const there = scores[from]?.[to] ?? 0;
  const back = scores[to]?.[from] ?? 0;
  const isEven = Math.abs(there - back) < EVEN;
  return (
    <>
      <Pick
        part="other-picker"
        words={say("controls.other")}
        names={labels}
        chosen={to}
        choose={(chosen) => {
          other.value = chosen;
        }}
      />
      <dl class="lab-compare" data-part="both-ways" data-even={String(isEven)}>
        <dt>
          {labels[from]} → {labels[to]}
        </dt>
        <dd>
          <Figure value={there} />
        </dd>
        <dt>
          {labels[to]} → {labels[from]}
        </dt>
        <dd>
          <Figure value={back} />
        </dd>
      </dl>
      <p class="soft" role="status">
        {verdict(isSame, isEven)}
      </p>
    </>
  );
}

function verdict(isSame: boolean, isEven: boolean): string {
  if (isSame) return say("lab_matrices.verdict_same");
  return isEven ? say("lab_matrices.verdict_even") : say("lab_matrices.verdict");
}
