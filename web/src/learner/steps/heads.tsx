import { HeadsAtConstantCost } from "../labs/HeadsAtConstantCost";
import { Shapes } from "../labs/Shapes";
import { Argument, Equals, Formula, Name, W } from "../parts/Formula";
import { Product } from "../parts/Product";
import { layerSheet, outputProjection } from "../parts/sheets";
import type { LessonState } from "../state";
import type { Step } from "./step";

function HeadsFormula() {
  return (
    <Formula>
      <Name>output</Name>
      <Equals />
      <Name>concat</Name>
      <Argument>
        <msub>
          <Name>head</Name>
          <mn>1</mn>
        </msub>
        <mo>,</mo>
        <mo>…</mo>
        <mo>,</mo>
        <msub>
          <Name>head</Name>
          <mi>h</mi>
        </msub>
      </Argument>
      <mo>·</mo>
      <W of="O" />
    </Formula>
  );
}

function Lab({ state }: { state: LessonState }) {
  return <HeadsAtConstantCost state={state} />;
}

/** The heads of this lesson side by side, through w_o, where there is one. */
function Joined({ state }: { state: LessonState }) {
  const { w_o } = state.worked.value;
  if (!w_o) return null;
  const many = state.lesson.heads.length;
  return (
    <section>
      <h3>This lesson's {many === 1 ? "head" : `${many} heads`}, through w_o</h3>
      <p>
        The outputs of the heads stand side by side in concat; w_o brings them back to the width of
        x and mixes what they found.
      </p>
      <Product
        state={state}
        left={layerSheet(state, "concat")}
        right={outputProjection(state, w_o)}
        result={layerSheet(state, "output")}
        by="column"
      />
    </section>
  );
}

export const heads: Step = {
  formula: HeadsFormula,
  parts: (state) => (state.lesson.w_o ? [Joined, Lab, Shapes] : [Lab, Shapes]),
};
