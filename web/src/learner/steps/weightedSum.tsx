import { CountedTwice } from "../labs/CountedTwice";
import { Say, say } from "../language";
import { FlowClip } from "../motion/clips";
import { Equals, Formula, Name, V } from "../parts/Formula";
import { Product } from "../parts/Product";
import { headSheet } from "../parts/sheets";
import type { LessonState } from "../state";
import { BeforeAfter } from "./BeforeAfter";
import { Ledger } from "./Ledger";
import type { Step } from "./step";

function SumFormula() {
  return (
    <Formula>
      <Name>{say("symbol.output")}</Name>
      <Equals />
      <mrow class="weight">
        <Name>{say("symbol.weights")}</Name>
      </mrow>
      <mo>·</mo>
      <V />
      <mspace width="1.5em" />
      <msub>
        <mi>o</mi>
        <mi>i</mi>
      </msub>
      <Equals />
      <munder>
        <mo>∑</mo>
        <mi>j</mi>
      </munder>
      <msub class="weight">
        <mi>a</mi>
        <mrow>
          <mi>i</mi>
          <mi>j</mi>
        </mrow>
      </msub>
      <msub class="v">
        <mi>v</mi>
        <mi>j</mi>
      </msub>
    </Formula>
  );
}

function OneRow({ state }: { state: LessonState }) {
  return (
    <section>
      <p>
        <Say name="sum.row" with={{ name: state.lesson.labels[state.focus.value] }} />
      </p>
      <Ledger state={state} />
    </section>
  );
}

function AllRows({ state }: { state: LessonState }) {
  return (
    <section>
      <h3>{say("softmax.all_rows")}</h3>
      <Product
        state={state}
        left={headSheet(state, "weights")}
        right={headSheet(state, "values")}
        result={headSheet(state, "context")}
      />
    </section>
  );
}

function NotesSum({ state }: { state: LessonState }) {
  return <CountedTwice state={state} />;
}

const PARTS = [OneRow, FlowClip, AllRows, BeforeAfter];

export const weightedSum: Step = {
  formula: SumFormula,
  parts: (state) => (state.lesson.is_notes_example ? [...PARTS, NotesSum] : PARTS),
};
