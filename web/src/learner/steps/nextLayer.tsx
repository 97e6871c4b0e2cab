import type { FunctionComponent } from "preact";
import type { WorkedBlock } from "../../maths/lesson";
import { Notice } from "../../parts/Notice";
import { Exercises } from "../labs/Exercises";
import { TakeAway } from "../labs/TakeAway";
import { say } from "../language";
import { Argument, Comma, Equals, Formula, Name, Plus } from "../parts/Formula";
import { Grid } from "../parts/Grid";
import { Product } from "../parts/Product";
import { blockSheet, bookOf, layerSheet, type Sheet } from "../parts/sheets";
import { With } from "../parts/With";
import type { LessonState } from "../state";
import { NormLine } from "./NormLine";
import type { Step } from "./step";

function BlockFormula() {
  return (
    <Formula>
      <mi>n</mi>
      <Equals />
      <Name>norm</Name>
      <Argument>
        <mi>X</mi>
        <Plus />
        <Name>{say("symbol.attention")}</Name>
      </Argument>
      <Comma />
      <Name>{say("symbol.hidden_state")}</Name>
      <Equals />
      <Name>norm</Name>
      <Argument>
        <mi>n</mi>
        <Plus />
        <Name>mlp</Name>
        <Argument>
          <mi>n</mi>
        </Argument>
      </Argument>
    </Formula>
  );
}

interface BlockProps {
  readonly state: LessonState;
  readonly block: WorkedBlock;
}

/** A part that exists only where the output can be added to x. */
function ofBlock(Inside: FunctionComponent<BlockProps>) {
  return function OfBlock({ state }: { state: LessonState }) {
    const { block } = state.worked.value;
    return block && <Inside state={state} block={block} />;
  };
}

interface SumProps {
  readonly state: LessonState;
  readonly terms: readonly [Sheet, Sheet];
  readonly sum: Sheet;
  readonly normed: Sheet;
}

/** a + b = r, then r with mean 0 and deviation 1. */
function SumAndNorm({ state, terms, sum, normed }: SumProps) {
  const grid = (sheet: Sheet, remark: string) => (
    <Grid sheet={sheet} book={bookOf(state, sheet)} mark={state.focus.value} remark={remark} />
  );
  return (
    <>
      <div class="learn-factors">
        {grid(terms[0], "")}
        <With sign="+">{grid(terms[1], "")}</With>
        <With sign="=">{grid(sum, say("next_layer.remark_residual"))}</With>
        <With sign="→">{grid(normed, say("next_layer.remark_norm"))}</With>
      </div>
      <NormLine
        name={state.lesson.labels[state.focus.value] ?? ""}
        row={sum.values[state.focus.value] ?? []}
      />
    </>
  );
}

function Residual({ state, block }: BlockProps) {
  return (
    <section>
      <h3>{say("next_layer.residual_title")}</h3>
      <p>{say("next_layer.residual")}</p>
      <SumAndNorm
        state={state}
        terms={[layerSheet(state, "x"), layerSheet(state, "output")]}
        sum={blockSheet(state, block, "residual")}
        normed={blockSheet(state, block, "normed")}
      />
    </section>
  );
}

function Mlp({ state, block }: BlockProps) {
  const sheet = (name: keyof WorkedBlock) => blockSheet(state, block, name);
  return (
    <section>
      <h3>{say("next_layer.mlp_title")}</h3>
      <p>
        {say("next_layer.mlp")}{" "}
        {say("next_layer.mlp_made_up", { times: block.w_2.length / block.w_1.length })}
      </p>
      <Product state={state} left={sheet("normed")} right={sheet("w_1")} result={sheet("hidden")} />
      <p>{say("next_layer.cut")}</p>
      <Product state={state} left={sheet("activated")} right={sheet("w_2")} result={sheet("mlp")} />
    </section>
  );
}

function Again({ state, block }: BlockProps) {
  return (
    <section>
      <h3>{say("next_layer.again_title")}</h3>
      <p>{say("next_layer.again")}</p>
      <SumAndNorm
        state={state}
        terms={[blockSheet(state, block, "normed"), blockSheet(state, block, "mlp")]}
        sum={blockSheet(state, block, "residual_2")}
        normed={blockSheet(state, block, "output")}
      />
      <p class="soft">{say("next_layer.order")}</p>
    </section>
  );
}

function NotAsWide({ state }: { state: LessonState }) {
  const { x, output } = state.worked.value;
  return (
    <Notice kind="info">
      {say("next_layer.not_as_wide", {
        output: output[0]?.length ?? 0,
        input: x[0]?.length ?? 0,
      })}
    </Notice>
  );
}

function End({ state }: { state: LessonState }) {
  return (
    <section class="learn-end" data-part="end-card">
      <Exercises state={state} />
      <TakeAway state={state} />
    </section>
  );
}

const BLOCK = [ofBlock(Residual), ofBlock(Mlp), ofBlock(Again), End];

export const nextLayer: Step = {
  formula: BlockFormula,
  parts: (state) => (state.worked.value.block ? BLOCK : [NotAsWide, End]),
};
