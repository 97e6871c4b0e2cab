import { RealHeadLab } from "../labs/RealHeadLab";
import {
  Argument,
  Bracketed,
  Equals,
  Formula,
  K,
  Name,
  Q,
  RootOfWidth,
  Transposed,
  V,
} from "../parts/Formula";
import type { LessonState } from "../state";
import type { Step } from "./step";

function WholeFormula() {
  return (
    <Formula>
      <Name>Attention</Name>
      <Argument>
        <Q />
        <mo>,</mo>
        <K />
        <mo>,</mo>
        <V />
      </Argument>
      <Equals />
      <mrow class="weight">
        <Name>softmax</Name>
      </mrow>
      <Bracketed>
        <mfrac>
          <mrow>
            <Q />
            <Transposed>
              <K />
            </Transposed>
          </mrow>
          <RootOfWidth />
        </mfrac>
      </Bracketed>
      <V />
    </Formula>
  );
}

function Lab({ state }: { state: LessonState }) {
  return <RealHeadLab state={state} />;
}

export const realHead: Step = { formula: WholeFormula, hasOwnText: true, parts: () => [Lab] };
