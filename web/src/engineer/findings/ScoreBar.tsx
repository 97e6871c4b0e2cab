import { Figure } from "../../parts/Figure";
import type { Finding, Known } from "../../source/answers";

/** A share of what the bar stands for, in per cent of its length. */
function along(value: Known, most: number): string {
  return `${100 * Math.min(Math.max((value ?? 0) / most, 0), 1)}%`;
}

/** The score, with chance and threshold as marks on the same scale. */
export function ScoreBar({ finding }: { finding: Finding }) {
  const { score, chance, threshold } = finding;
  const most = Math.max(1, score ?? 0, threshold ?? 0);
  const marks: readonly [string, Known][] = [
    ["chance", chance],
    ["threshold", threshold],
  ];
  return (
    <div class="find-score" data-part="score">
      <div class="find-bar" aria-hidden="true">
        <span class="find-fill" style={{ width: along(score, most) }} />
        {marks.map(
          ([name, value]) =>
            value !== null && (
              <span key={name} class={`find-mark ${name}`} style={{ left: along(value, most) }} />
            ),
        )}
      </div>
      <dl class="find-numbers">
        <Line name="score" value={score} />
        <Line name="chance" value={chance} mark="chance" />
        <Line name="threshold" value={threshold} mark="threshold" />
        <Line name="off sinks" value={finding.non_sink} />
        <Line name="rows" value={finding.n_rows} places={0} />
        <Line name="p by chance" value={finding.p_value} title={finding.test} />
      </dl>
    </div>
  );
}

interface Said {
  readonly name: string;
  readonly value: Known;
  readonly mark?: string;
  readonly title?: string;
  readonly places?: number;
}

function Line({ name, value, mark, title, places = 4 }: Said) {
  if (value === null) return null;
  return (
    <div data-number={name} title={title}>
      <dt>
        {mark && <span class={`find-swatch ${mark}`} aria-hidden="true" />}
        {name}
      </dt>
      <dd>
        <Figure value={value} places={places} />
      </dd>
    </div>
  );
}
