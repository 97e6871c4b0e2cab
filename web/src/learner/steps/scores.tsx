import { useSignal } from "@preact/signals";
import { TwoMatrices } from "../labs/TwoMatrices";
import { say } from "../language";
import { MeetClip } from "../motion/clips";
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
      <Name>{say("symbol.scores")}</Name>
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
      <mtext>‖</mtext>
      <mi class="q">q</mi>
      <mtext>‖</mtext>
      <mspace width="0.2em" />
      <mtext>‖</mtext>
      <mi class="k">k</mi>
      <mtext>‖</mtext>
      <mspace width="0.2em" />
      <Name>cos</Name>
      <mspace width="0.15em" />
      <mi>θ</mi>
    </Formula>
  );
}

function Scores({ state }: { state: LessonState }) {
  return (
    <section>
      <p>{say("scores.all")}</p>
      <Product
        state={state}
        left={headSheet(state, "queries")}
        right={headSheet(state, "keys")}
        result={headSheet(state, "scores")}
        isTurned
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
      <h3>{say("scores.arrows_title")}</h3>
      <p>{say("scores.arrows")}</p>
      <Pick
        part="key-picker"
        words={say("controls.key")}
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
  parts: () => [Scores, MeetClip, Arrows, TwoMatrices],
};
