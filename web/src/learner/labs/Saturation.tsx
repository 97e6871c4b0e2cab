import type { ComponentChildren } from "preact";
import { percent } from "../../maths/format";
import { answerToProducts } from "../../maths/gradient";
import type { Vector } from "../../maths/matrix";
import { entropy, jacobianNorm } from "../../maths/softmax";
import { Figure } from "../../parts/Figure";
import { Lab } from "./Lab";

interface Props {
  readonly weights: Vector;
  readonly scaled: boolean;
  readonly d_k: number;
  /** Keys that the row may see; all of them unless told. */
  readonly visible?: number;
}

const LARGEST = 0.5; // ‖diag(p) − p pᵀ‖ of two equal weights; no row has more
const DYING = 0.02; // of it

/** Meters of one row of weights; they die when one weight takes all. */
export function Saturation({ weights, scaled, d_k, visible = weights.length }: Props) {
  const most = Math.log(visible);
  const spread = entropy(weights);
  const answer = jacobianNorm(weights);
  const reaching = answerToProducts(weights, d_k, scaled);
  return (
    <Lab part="saturation" title="Can this row still learn?">
      <div class="lab-meters">
        <Meter part="entropy" words="Entropy" share={most > 0 ? spread / most : 0}>
          <Figure value={spread} /> nats, {percent(most > 0 ? spread / most : 0)} of log {visible}
        </Meter>
        <Meter part="jacobian" words="‖diag(p) − p pᵀ‖" share={answer / LARGEST}>
          <Figure value={answer} /> of 0.5 at most
        </Meter>
        <Meter part="reaching" words="What reaches q·k" share={answer / LARGEST}>
          <Figure value={reaching} />
          {scaled ? `, the factor 1/√${d_k} included` : ", no factor before it"}
        </Meter>
      </div>
      <p class="soft" role="status" data-part="saturation-verdict">
        {verdict(answer, visible)}
      </p>
    </Lab>
  );
}

function verdict(answer: number, visible: number): string {
  if (visible < 2) return "One key alone: there is nothing to choose, so nothing to learn here.";
  if (answer < DYING * LARGEST) {
    return "Saturated: one key has it all. A change of the scores changes nothing, so almost no gradient passes.";
  }
  return "Alive: a change of the scores still moves the weights, so a gradient passes.";
}

interface MeterProps {
  readonly part: string;
  readonly words: string;
  readonly share: number;
  readonly children: ComponentChildren;
}

function Meter({ part, words, share, children }: MeterProps) {
  const full = Math.min(Math.max(share, 0), 1);
  return (
    <div class={`lab-meter ${full < DYING ? "is-dead" : ""}`} data-part={`meter-${part}`}>
      <b class="lab-what">{words}</b>
      <span class="lab-bar" aria-hidden="true">
        <i class="lab-level" style={{ width: `${100 * full}%` }} />
      </span>
      <span>{children}</span>
    </div>
  );
}
