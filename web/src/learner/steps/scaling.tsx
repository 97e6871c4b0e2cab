import { ScalingLab } from "../labs/ScalingLab";
import { Say, say } from "../language";
import { ScaleClip } from "../motion/clips";
import { Toggle } from "../parts/controls";
import { Equals, Formula, K, Name, Q, RootOfWidth, Transposed } from "../parts/Formula";
import { Grid } from "../parts/Grid";
import { Explanation } from "../parts/Products";
import { bookOf, headSheet } from "../parts/sheets";
import { rowKeys } from "../parts/spelling";
import { Tidy } from "../parts/Tidy";
import { With } from "../parts/With";
import type { LessonState } from "../state";
import { NotesExample } from "./NotesExample";
import type { Step } from "./step";

function ScalingFormula() {
  return (
    <Formula>
      <Name>{say("symbol.scaled")}</Name>
      <Equals />
      <mfrac>
        <mrow>
          <Q />
          <Transposed>
            <K />
          </Transposed>
        </mrow>
        <RootOfWidth />
      </mfrac>
    </Formula>
  );
}

function BeforeAndAfter({ state }: { state: LessonState }) {
  const isScaled = state.given.value.scaled;
  const d_k = state.worksOn.value.w_k[0]?.length ?? 1;
  const [before, after] = [headSheet(state, "scores"), headSheet(state, "scaled")];
  const mark = state.focus.value;
  return (
    <section>
      <Toggle state={state} what="scaled">
        <Say name="scaling.divide" with={{ d_k, root: <Tidy value={Math.sqrt(d_k)} /> }} />
      </Toggle>
      <div class="learn-factors">
        <Grid
          sheet={before}
          book={bookOf(state, before)}
          mark={mark}
          remark={say("scaling.before")}
        />
        <With sign={isScaled ? "÷ √d_k =" : "="}>
          <Grid
            sheet={after}
            book={bookOf(state, after)}
            mark={mark}
            remark={isScaled ? say("scaling.after") : say("scaling.not_divided")}
          />
        </With>
      </div>
      <Divided state={state} divisor={isScaled ? Math.sqrt(d_k) : 1} />
    </section>
  );
}

/** The chosen row, one division per key. */
function Divided({ state, divisor }: { state: LessonState; divisor: number }) {
  const row = state.focus.value;
  const head = state.worksOn.value;
  const { kept, rest } = rowKeys(head.masked[row] ?? [], head.weights[row] ?? [], row);
  return (
    <Explanation>
      {kept.map((j) => (
        <span key={j} class="learn-item">
          <span class="soft">{state.lesson.labels[j]}:</span>{" "}
          <Tidy value={head.scores[row]?.[j] ?? 0} /> / <Tidy value={divisor} /> ={" "}
          <Tidy value={head.scaled[row]?.[j] ?? 0} />
        </span>
      ))}
      {rest.length > 0 && <span class="soft">{say("count.more", { count: rest.length })}</span>}
    </Explanation>
  );
}

function Lab({ state }: { state: LessonState }) {
  return <ScalingLab state={state} />;
}

export const scaling: Step = {
  formula: ScalingFormula,
  parts: () => [BeforeAndAfter, ScaleClip, NotesExample, Lab],
};
