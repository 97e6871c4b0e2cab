import { say } from "../language";
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
  ["w_q", "queries"],
  ["w_k", "keys"],
  ["w_v", "values"],
] as const;

function view([projection, made]: (typeof VIEWS)[number]) {
  return function View({ state }: { state: LessonState }) {
    const [left, right] = [layerSheet(state, "x"), headSheet(state, projection)];
    const result = headSheet(state, made);
    return (
      <section>
        <h3 class={`role-${result.role}`}>
          {say(`projections.${made}`, { matrix: result.title })}
        </h3>
        <Product state={state} left={left} right={right} result={result} />
      </section>
    );
  };
}

function Conventions({ state }: { state: LessonState }) {
  const { w_k, w_v } = state.worksOn.value;
  return (
    <section>
      <p>{say("projections.rows")}</p>
      <p>{say("projections.width", { d_v: w_v[0]?.length ?? 0, d_k: w_k[0]?.length ?? 0 })}</p>
    </section>
  );
}

const PARTS = [...VIEWS.map(view), Conventions];

export const projections: Step = { formula: ProjectionsFormula, parts: () => PARTS };
