import { Toggle } from "../parts/controls";
import { Argument, Equals, Formula, Name, Plus } from "../parts/Formula";
import { Grid } from "../parts/Grid";
import { Explanation } from "../parts/Products";
import { RowVector } from "../parts/RowVector";
import { bookOf, layerSheet } from "../parts/sheets";
import { With } from "../parts/With";
import type { LessonState } from "../state";
import type { Step } from "./step";

function EmbeddingFormula() {
  return (
    <Formula>
      <msub>
        <mi>x</mi>
        <mi>i</mi>
      </msub>
      <Equals />
      <Name>word</Name>
      <Argument>
        <mi>i</mi>
      </Argument>
      <Plus />
      <Name>position</Name>
      <Argument>
        <mi>i</mi>
      </Argument>
    </Formula>
  );
}

function Vectors({ state }: { state: LessonState }) {
  const { withPositions } = state.given.value;
  const grid = (name: "words" | "positions" | "x", remark: string) => {
    const sheet = layerSheet(state, name);
    return (
      <Grid sheet={sheet} book={bookOf(state, sheet)} mark={state.focus.value} remark={remark} />
    );
  };
  return (
    <section>
      <p data-part="lead">
        Attention lets each token of a text fetch something from the others. How much it takes from
        each is a <b class="weight">weight</b>. This lesson works out the weights of one sentence,
        number by number, in eight steps; it follows the worked example of two short notes, “the
        notes” below.
      </p>
      <p>
        The input of the layer is <b>word embedding plus position</b>. Rows are tokens.{" "}
        {withPositions
          ? "The positions are sines and cosines of the place, counted from 0."
          : "The notes leave the position out: here X is the word embedding alone."}
      </p>
      <Toggle state={state} what="withPositions">
        Add positions
      </Toggle>
      <div class="learn-factors">
        {withPositions && (
          <>
            {grid("words", "embedding")}
            <With sign="+">{grid("positions", "sines, cosines")}</With>
            <With sign="=">{grid("x", "input")}</With>
          </>
        )}
        {!withPositions && grid("words", "= X, the input")}
      </div>
      <Total state={state} />
    </section>
  );
}

/** The chosen row: word + position = x. */
function Total({ state }: { state: LessonState }) {
  const row = state.focus.value;
  const { words, positions, x } = state.worked.value;
  return (
    <Explanation>
      x({state.lesson.labels[row]}) ={" "}
      {state.given.value.withPositions && (
        <>
          <RowVector values={words[row] ?? []} /> +{" "}
          <RowVector values={positions[row] ?? []} tone="soft" /> ={" "}
        </>
      )}
      <RowVector values={x[row] ?? []} />
    </Explanation>
  );
}

function Origins({ state }: { state: LessonState }) {
  return (
    <section>
      <p class="soft">
        Embeddings: {state.lesson.embeddings.source}. Projections: {state.lesson.projections}.
      </p>
      <p class="soft">
        Every number can be changed: click it, type, press Enter. Every later step follows.
      </p>
    </section>
  );
}

export const embedding: Step = { formula: EmbeddingFormula, parts: () => [Vectors, Origins] };
