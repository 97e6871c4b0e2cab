import { Say, say } from "../language";
import { Toggle } from "../parts/controls";
import { Argument, Equals, Formula, Name, Plus } from "../parts/Formula";
import { Grid } from "../parts/Grid";
import { Explanation } from "../parts/Products";
import { RowVector } from "../parts/RowVector";
import { bookOf, layerSheet } from "../parts/sheets";
import { With } from "../parts/With";
import type { LessonState } from "../state";
import { Order } from "../story/Order";
import type { Step } from "./step";

function EmbeddingFormula() {
  return (
    <Formula>
      <msub>
        <mi>x</mi>
        <mi>i</mi>
      </msub>
      <Equals />
      <Name>{say("symbol.word")}</Name>
      <Argument>
        <mi>i</mi>
      </Argument>
      <Plus />
      <Name>{say("symbol.position")}</Name>
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
        <Say name="embedding.lead" />
      </p>
      <p>
        <Say name="embedding.input" />{" "}
        {withPositions ? say("embedding.with_positions") : say("embedding.without_positions")}
      </p>
      <Toggle state={state} what="withPositions">
        {say("embedding.add_positions")}
      </Toggle>
      <div class="learn-factors">
        {withPositions && (
          <>
            {grid("words", say("embedding.remark_word"))}
            <With sign="+">{grid("positions", say("embedding.remark_position"))}</With>
            <With sign="=">{grid("x", say("embedding.remark_input"))}</With>
          </>
        )}
        {!withPositions && grid("words", say("embedding.remark_alone"))}
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
        {say("origins.embeddings", { source: state.lesson.embeddings.source })}{" "}
        {say("origins.projections", { source: state.lesson.projections })}
      </p>
      <p class="soft">{say("embedding.editable")}</p>
    </section>
  );
}

export const embedding: Step = {
  formula: EmbeddingFormula,
  parts: () => [Vectors, Origins, Order],
};
