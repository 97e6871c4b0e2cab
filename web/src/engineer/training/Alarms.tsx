import { useState } from "preact/hooks";
import { count, short } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { linkTo } from "../../shell/address";
import type { Alarm, TrainingFacts } from "../../source/answers";
import type { Where } from "../../source/source";
import { statisticName } from "../overview/statistics";
import { trainingPlace } from "../places";

const MOST = 12;

/** What went over a limit and stayed there, in the order in which it did. */
export function Alarms({ where, facts }: { where: Where; facts: TrainingFacts }) {
  const [isWhole, setWhole] = useState(false);
  const { alarms } = facts;
  const shown = isWhole ? alarms : alarms.slice(0, MOST);
  return (
    <section class="card" data-part="alarms">
      <h2>Alarms</h2>
      {alarms.length === 0 ? (
        <p>None: no head stayed over a limit.</p>
      ) : (
        <ol class="train-alarms">
          {shown.map((one) => (
            <li key={`${one.kind}/${one.head}`}>
              <AlarmLine alarm={one} where={where} />
            </li>
          ))}
        </ol>
      )}
      {shown.length < alarms.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show all {count(alarms.length)}
        </button>
      )}
    </section>
  );
}

function AlarmLine({ alarm, where }: { alarm: Alarm; where: Where }) {
  const { head, kind, statistic, step } = alarm;
  const value = alarm.value ?? Number.NaN;
  const threshold = alarm.threshold ?? Number.NaN;
  const to = trainingPlace(where, { stat: statistic, head, step: String(step) });
  return (
    <a
      class="train-alarm-link"
      data-part="alarm"
      data-head={head}
      data-step={step}
      data-statistic={statistic}
      href={linkTo(to)}
    >
      <span>
        <strong>{head}</strong> {kind}
      </span>
      <span class="soft">
        since step <span data-value={step}>{count(step)}</span>: {statisticName(statistic)}{" "}
        {alarm.value === null ? (
          "NaN or infinite"
        ) : (
          <>
            <Figure value={value} /> {value < threshold ? "<" : ">"}{" "}
            <span data-value={threshold}>{short(threshold)}</span>
          </>
        )}
      </span>
    </a>
  );
}
