import { MaskPlace } from "../labs/MaskPlace";
import { Saturation } from "../labs/Saturation";
import { SoftLookup } from "../labs/SoftLookup";
import { TrainingStep } from "../labs/TrainingStep";
import { Say, say } from "../language";
import { SqueezeClip } from "../motion/clips";
import { Toggle } from "../parts/controls";
import { Equals, Formula, Name } from "../parts/Formula";
import { Grid } from "../parts/Grid";
import { HeatLegend, HeatMap } from "../parts/HeatMap";
import { bookOf, headSheet } from "../parts/sheets";
import { With } from "../parts/With";
import type { LessonState } from "../state";
import { ShareTable } from "./ShareTable";
import type { Step } from "./step";

function Power({ of }: { of: string }) {
  return (
    <msup>
      <mi>e</mi>
      <msub>
        <mi>s</mi>
        <mi>{of}</mi>
      </msub>
    </msup>
  );
}

function SoftmaxFormula() {
  return (
    <Formula>
      <msub class="weight">
        <Name>{say("symbol.weight")}</Name>
        <mi>j</mi>
      </msub>
      <Equals />
      <mfrac>
        <Power of="j" />
        <mrow>
          <munder>
            <mo>∑</mo>
            <mi>t</mi>
          </munder>
          <Power of="t" />
        </mrow>
      </mfrac>
    </Formula>
  );
}

function OneRow({ state }: { state: LessonState }) {
  return (
    <section>
      <p>
        <Say name="softmax.row" with={{ name: state.lesson.labels[state.focus.value] }} />
      </p>
      <Toggle state={state} what="causal">
        {say("softmax.causal")}
      </Toggle>
      <ShareTable state={state} />
    </section>
  );
}

function AllRows({ state }: { state: LessonState }) {
  const { causal } = state.given.value;
  const [masked, weights] = [headSheet(state, "masked"), headSheet(state, "weights")];
  const mark = state.focus.value;
  return (
    <section>
      <h3>{say("softmax.all_rows")}</h3>
      <div class="learn-factors">
        {causal && (
          <Grid
            sheet={masked}
            book={bookOf(state, masked)}
            mark={mark}
            remark={say("softmax.where_hidden")}
          />
        )}
        <With sign={causal ? "→" : ""}>
          <Grid
            sheet={weights}
            book={bookOf(state, weights)}
            mark={mark}
            remark={say("softmax.sums_to_one")}
          />
        </With>
        <figure class="learn-heat-figure">
          <figcaption>{say("softmax.rows_columns")}</figcaption>
          <HeatMap
            title={say("softmax.as_colours")}
            weights={weights.values}
            labels={state.lesson.labels}
            mark={mark}
            causal={causal}
          />
          <HeatLegend count={state.lesson.labels.length} />
        </figure>
      </div>
    </section>
  );
}

function Meters({ state }: { state: LessonState }) {
  const { weights, masked, w_k } = state.worksOn.value;
  const row = masked[state.focus.value] ?? [];
  return (
    <Saturation
      weights={weights[state.focus.value] ?? []}
      visible={row.filter((score) => score !== Number.NEGATIVE_INFINITY).length}
      scaled={state.given.value.scaled}
      d_k={w_k[0]?.length ?? 1}
    />
  );
}

function Training({ state }: { state: LessonState }) {
  return <TrainingStep state={state} />;
}

export const softmax: Step = {
  formula: SoftmaxFormula,
  parts: () => [OneRow, SqueezeClip, AllRows, MaskPlace, SoftLookup, Meters, Training],
};
