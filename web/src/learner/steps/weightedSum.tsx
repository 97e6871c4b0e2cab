import { CountedTwice } from "../labs/CountedTwice";
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
      <Name>output</Name>
      <Equals />
      <mrow class="weight">
        <Name>weights</Name>
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
        The row of <b>{state.lesson.labels[state.focus.value]}</b>: each value times its weight,
        added up column by column.
      </p>
      <Ledger state={state} />
    </section>
  );
}

function AllRows({ state }: { state: LessonState }) {
  return (
    <section>
      <h3>Every row at once</h3>
      <Product
        state={state}
        left={headSheet(state, "weights")}
        right={headSheet(state, "values")}
        result={headSheet(state, "context")}
        by="column"
      />
    </section>
  );
}

function NotesSum({ state }: { state: LessonState }) {
  return <CountedTwice state={state} />;
}

const PARTS = [OneRow, AllRows, BeforeAfter];

export const weightedSum: Step = {
  formula: SumFormula,
  parts: (state) => (state.lesson.is_notes_example ? [...PARTS, NotesSum] : PARTS),
};
