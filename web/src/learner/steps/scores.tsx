import { useSignal } from "@preact/signals";
import { TwoMatrices } from "../labs/TwoMatrices";
import { Angle } from "../parts/Angle";
import { Pick } from "../parts/controls";
import { Equals, Formula, K, Name, Q, Transposed } from "../parts/Formula";
import { Product } from "../parts/Product";
import { headSheet } from "../parts/sheets";
import type { LessonState } from "../state";
import type { Step } from "./step";

function ScoresFormula() {
  return (
    <Formula>
      <Name>scores</Name>
      <Equals />
      <Q />
      <Transposed>
        <K />
      </Transposed>
      <mspace width="1.5em" />
      <mi class="q">q</mi>
      <mo>·</mo>
      <mi class="k">k</mi>
      <Equals />
      <mo>‖</mo>
      <mi class="q">q</mi>
      <mo>‖</mo>
      <mo>‖</mo>
      <mi class="k">k</mi>
      <mo>‖</mo>
      <Name>cos</Name>
      <mi>θ</mi>
    </Formula>
  );
}

function Scores({ state }: { state: LessonState }) {
  return (
    <section>
      <p>
        Each query is multiplied with the keys of all tokens, its own included: row i, column j is q
        of token i with k of token j.
      </p>
      <Product
        state={state}
        left={headSheet(state, "queries")}
        right={headSheet(state, "keys")}
        result={headSheet(state, "scores")}
        by="row"
      />
    </section>
  );
}

function Arrows({ state }: { state: LessonState }) {
  const key = useSignal(0);
  const { labels } = state.lesson;
  const row = state.focus.value;
  const { queries, keys } = state.worksOn.value;
  return (
    <section>
      <h3>The two arrows and their angle</h3>
      <p>
        Two vectors of any width lie in one plane. The dashed line drops k onto q: the score is the
        length of q times that shadow.
      </p>
      <Pick
        part="key-picker"
        words="Key"
        names={labels}
        chosen={key.value}
        choose={(chosen) => {
          key.value = chosen;
        }}
      />
      <Angle
        query={queries[row] ?? []}
        keyVector={keys[key.value] ?? []}
        names={[labels[row] ?? "", labels[key.value] ?? ""]}
      />
    </section>
  );
}

export const scores: Step = {
  formula: ScoresFormula,
  parts: () => [Scores, Arrows, TwoMatrices],
};
