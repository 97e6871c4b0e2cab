import { type Signal, useSignal } from "@preact/signals";
import { dot, type Matrix, multiply, transpose } from "../../maths/matrix";
import { rank } from "../../maths/rank";
import { Figure } from "../../parts/Figure";
import { Pick } from "../parts/controls";
import type { LessonState } from "../state";
import { Choice, Lab } from "./Lab";
import { Numbers } from "./Numbers";

type Keys = "own" | "same";

const KEYS: readonly { readonly value: Keys; readonly text: string }[] = [
  { value: "own", text: "w_k is a matrix of its own" },
  { value: "same", text: "w_k = w_q" },
];

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
    <Lab part="two-matrices" title="Why two matrices and not their product?">
      <p>
        q·k = (x w_q)·(x w_k) = x (w_q w_kᵀ) xᵀ: the scores know w_q and w_k only by their product.
        One matrix would do, but a large one.
      </p>
      <Width columns={columns} d_k={d_k} width={width} />
      <div class="lab-controls">
        <Numbers part="product" title="w_q · w_kᵀ" values={product} />
        <Sizes width={width} d={w_q.length} rank={rank(product)} />
      </div>
      <Choice
        part="keys-choice"
        words="And why not one matrix for both?"
        options={KEYS}
        chosen={keys.value}
        choose={(value) => {
          keys.value = value;
        }}
      />
      <BothWays state={state} product={product} isSame={keys.value === "same"} />
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
        aria-valuetext={`${props.width} columns of w_q and w_k`}
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
      <dt>numbers in w_q and w_k</dt>
      <dd>
        2 · {d} · {width} = <Figure value={2 * d * width} places={0} />
      </dd>
      <dt>numbers in one matrix</dt>
      <dd>
        {d} · {d} = <Figure value={d * d} places={0} />
      </dd>
      <dt>rank of the product</dt>
      <dd>
        <Figure value={found} places={0} /> of {d}, at most d_k
      </dd>
      <dt>in a layer of width 4,096 with heads of 128</dt>
      <dd>1,048,576 instead of 16,777,216 for each head</dd>
    </dl>
  );
}

interface WaysProps {
  readonly state: LessonState;
  readonly product: Matrix;
  readonly isSame: boolean;
}

/** The score from one token to another and back. */
function BothWays({ state, product, isSame }: WaysProps) {
  const other = useSignal(1);
  const { labels } = state.lesson;
  const { x } = state.worked.value;
  const from = state.focus.value;
  const to = Math.min(other.value, labels.length - 1);
  const score = (a: number, b: number) => dot(multiply([x[a] ?? []], product)[0] ?? [], x[b] ?? []);
  const there = score(from, to);
  const back = score(to, from);
  const isEven = Math.abs(there - back) < 1e-9;
  return (
    <>
      <Pick
        part="other-picker"
        words="Other token"
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
  if (isSame) {
    return "With one matrix for both, every score is the same both ways: if “it” looks at “cat”, “cat” looks as hard at “it”.";
  }
  return isEven
    ? "These two scores are equal, by the numbers of w_q and w_k. Change one of them in step 2, and the two ways part."
    : "Two matrices let one token look at another that does not look back.";
}
