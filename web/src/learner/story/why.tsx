import { Say, say } from "../language";
import { Equals, Formula, Name } from "../parts/Formula";
import type { LessonState } from "../state";
import type { Step } from "../steps/step";
import { BlockMap } from "./BlockMap";
import { Meanings } from "./Meanings";
import "./story.css";
import { WholeFilm } from "../motion/clips";

function WhyFormula() {
  return (
    <Formula>
      <mi>x</mi>
      <mtext>′</mtext>
      <Equals />
      <munder>
        <mo>∑</mo>
        <mi>j</mi>
      </munder>
      <msub class="weight">
        <Name>{say("symbol.weight")}</Name>
        <mi>j</mi>
      </msub>
      <mo>·</mo>
      <msub class="v">
        <mi>v</mi>
        <mi>j</mi>
      </msub>
    </Formula>
  );
}

function TwoMeanings({ state }: { state: LessonState }) {
  return (
    <>
      <p data-part="why-lead">
        <Say name="why.lead" />
      </p>
      <Meanings state={state} />
    </>
  );
}

// The film of one whole pass belongs between the two.
export const why: Step = {
  formula: WhyFormula,
  hasOwnText: true,
  parts: () => [TwoMeanings, WholeFilm, BlockMap],
};
