import type { Vector } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
import { Explanation } from "../parts/Products";
import { sumOf } from "../parts/spelling";

const EPSILON = 1e-5;

/** Mean and deviation of one row, which the norm takes out. */
export function NormLine({ name, row }: { name: string; row: Vector }) {
  const mean = sumOf(row) / row.length;
  const variance = sumOf(row.map((value) => (value - mean) ** 2)) / row.length;
  return (
    <Explanation>
      <span class="soft">{name}: </span>
      <span class="learn-item">
        <Say name="next_layer.mean" with={{ mean: <Figure value={mean} /> }} />,
      </span>
      <span class="learn-item">
        <Say
          name="next_layer.deviation"
          with={{ deviation: <Figure value={Math.sqrt(variance + EPSILON)} /> }}
        />
        ,
      </span>
      <span class="learn-item">{say("next_layer.normed")}</span>
    </Explanation>
  );
}
