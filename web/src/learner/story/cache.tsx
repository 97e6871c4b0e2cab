import { Argument, Equals, Formula, K, Name, RootOfWidth, Transposed, V } from "../parts/Formula";
import type { Step } from "../steps/step";
import { CacheMemory } from "./CacheMemory";
import { CacheWork } from "./CacheWork";
import { Generation } from "./Generation";
import "./beyond.css";
import "./story.css";

/** Up to token t. */
function UpTo({ of }: { of: "K" | "V" }) {
  return (
    <msub>
      {of === "K" ? <K /> : <V />}
      <mtext>≤t</mtext>
    </msub>
  );
}

function CacheFormula() {
  return (
    <Formula>
      <msub>
        <mi>o</mi>
        <mi>t</mi>
      </msub>
      <Equals />
      <mrow class="weight">
        <Name>softmax</Name>
      </mrow>
      <Argument>
        <msub class="q">
          <mi>q</mi>
          <mi>t</mi>
        </msub>
        <Transposed>
          <UpTo of="K" />
        </Transposed>
        <mo>/</mo>
        <RootOfWidth />
      </Argument>
      <UpTo of="V" />
    </Formula>
  );
}

export const cache: Step = {
  formula: CacheFormula,
  hasOwnRow: true,
  parts: () => [Generation, CacheWork, CacheMemory],
};
