import { HeadsAtConstantCost } from "../labs/HeadsAtConstantCost";
import { Shapes } from "../labs/Shapes";
import { say } from "../language";
import { HeadsClip } from "../motion/clips";
import { Argument, Equals, Formula, Name, W } from "../parts/Formula";
import { Product } from "../parts/Product";
import { layerSheet, outputProjection } from "../parts/sheets";
import type { LessonState } from "../state";
import type { Step } from "./step";

function HeadsFormula() {
  return (
    <Formula>
      <Name>{say("symbol.output")}</Name>
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
  return (
    <section>
      <h3>{say("heads.joined_title", { count: state.lesson.heads.length })}</h3>
      <p>{say("heads.joined")}</p>
      <Product
        state={state}
        left={layerSheet(state, "concat")}
        right={outputProjection(state, w_o)}
        result={layerSheet(state, "output")}
      />
    </section>
  );
}

export const heads: Step = {
  formula: HeadsFormula,
  parts: (state) =>
    state.lesson.w_o ? [Joined, HeadsClip, Lab, Shapes] : [Lab, HeadsClip, Shapes],
};
