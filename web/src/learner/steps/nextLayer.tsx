import type { FunctionComponent } from "preact";
import type { WorkedBlock } from "../../maths/lesson";
import { Notice } from "../../parts/Notice";
import { Exercises } from "../labs/Exercises";
import { TakeAway } from "../labs/TakeAway";
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
        <Name>attention</Name>
      </Argument>
      <Comma />
      <Name>hidden state</Name>
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
        <With sign="=">{grid(sum, "residual")}</With>
        <With sign="→">{grid(normed, "norm")}</With>
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
      <h3>Residual and layer norm</h3>
      <p>Attention adds to what was there, it does not replace it; the norm evens sizes.</p>
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
      <h3>MLP</h3>
      <p>
        Attention carries between tokens; the MLP then works on each token alone. w_1 and w_2 are
        made up, not learned; the hidden layer is {block.w_2.length / block.w_1.length}× as wide as
        x (4× in most models).
      </p>
      <Product
        state={state}
        left={sheet("normed")}
        right={sheet("w_1")}
        result={sheet("hidden")}
        by="column"
      />
      <p>Negative numbers are cut: max(h, 0).</p>
      <Product
        state={state}
        left={sheet("activated")}
        right={sheet("w_2")}
        result={sheet("mlp")}
        by="column"
      />
    </section>
  );
}

function Again({ state, block }: BlockProps) {
  return (
    <section>
      <h3>Residual and layer norm, again</h3>
      <p>What leaves is the hidden state, commonly called the contextual embedding.</p>
      <SumAndNorm
        state={state}
        terms={[blockSheet(state, block, "normed"), blockSheet(state, block, "mlp")]}
        sum={blockSheet(state, block, "residual_2")}
        normed={blockSheet(state, block, "output")}
      />
      <p class="soft">
        The order is the original Transformer's: the norm after each sum. Most models of today
        normalise before attention and before the MLP instead. The parts are the same.
      </p>
    </section>
  );
}

function NotAsWide({ state }: { state: LessonState }) {
  const { x, output } = state.worked.value;
  return (
    <Notice kind="info">
      The output is {output[0]?.length} wide and x {x[0]?.length}, so nothing can be added: the rest
      of the block needs both to be as wide. In a real block w_o sees to that.
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
