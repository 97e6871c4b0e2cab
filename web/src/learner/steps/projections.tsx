import { Comma, Equals, Formula, K, Q, V, W, X } from "../parts/Formula";
import { Product } from "../parts/Product";
import { headSheet, layerSheet } from "../parts/sheets";
import type { LessonState } from "../state";
import type { Step } from "./step";

function ProjectionsFormula() {
  return (
    <Formula>
      <Q />
      <Equals />
      <X />
      <W of="Q" tone="q" />
      <Comma />
      <K />
      <Equals />
      <X />
      <W of="K" tone="k" />
      <Comma />
      <V />
      <Equals />
      <X />
      <W of="V" tone="v" />
    </Formula>
  );
}

const VIEWS = [
  ["w_q", "queries", "what a token asks"],
  ["w_k", "keys", "what it is found by"],
  ["w_v", "values", "what it gives"],
] as const;

function view([projection, made, words]: (typeof VIEWS)[number]) {
  return function View({ state }: { state: LessonState }) {
    const [left, right] = [layerSheet(state, "x"), headSheet(state, projection)];
    const result = headSheet(state, made);
    return (
      <section>
        <h3 class={`role-${result.role}`}>
          {result.title}: {words}
        </h3>
        <Product state={state} left={left} right={right} result={result} by="column" />
      </section>
    );
  };
}

function Conventions({ state }: { state: LessonState }) {
  const { w_k, w_v } = state.worksOn.value;
  return (
    <section>
      <p>
        Rows are tokens here: Q = X·W, as in the first note. The second note writes Q = W·X with
        tokens as columns: the transpose of the same product.
      </p>
      <p>
        The width of w_v decides the width of the output: d_v = {w_v[0]?.length}, whatever d_k is (
        {w_k[0]?.length}). In training, back-propagation adjusts all three.
      </p>
    </section>
  );
}

const PARTS = [...VIEWS.map(view), Conventions];

export const projections: Step = { formula: ProjectionsFormula, parts: () => PARTS };
