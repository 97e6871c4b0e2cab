import type { ComponentChildren } from "preact";
import { percent } from "../../maths/format";
import { answerToProducts } from "../../maths/gradient";
import type { Vector } from "../../maths/matrix";
import { entropy, jacobianNorm } from "../../maths/softmax";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
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
    <Lab part="saturation" title={say("lab_saturation.title")}>
      <div class="lab-meters">
        <Meter
          part="entropy"
          words={say("lab_saturation.entropy")}
          share={most > 0 ? spread / most : 0}
        >
          <Say
            name="lab_saturation.entropy_of"
            with={{
              entropy: <Figure value={spread} />,
              share: percent(most > 0 ? spread / most : 0),
              keys: visible,
            }}
          />
        </Meter>
        <Meter part="jacobian" words="‖diag(p) − p pᵀ‖" share={answer / LARGEST}>
          <Say name="lab_saturation.jacobian_of" with={{ norm: <Figure value={answer} /> }} />
        </Meter>
        <Meter part="reaching" words={say("lab_saturation.reaching")} share={answer / LARGEST}>
          <Say
            name={scaled ? "lab_saturation.reaching_scaled" : "lab_saturation.reaching_raw"}
            with={{ norm: <Figure value={reaching} />, d_k }}
          />
        </Meter>
      </div>
      <p class="soft" role="status" data-part="saturation-verdict">
        {verdict(answer, visible)}
      </p>
    </Lab>
  );
}

function verdict(answer: number, visible: number): string {
  if (visible < 2) return say("lab_saturation.alone");
  return answer < DYING * LARGEST ? say("lab_saturation.saturated") : say("lab_saturation.alive");
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
