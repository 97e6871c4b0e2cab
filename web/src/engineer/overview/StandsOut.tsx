import { linkTo } from "../../shell/address";
import type { Report } from "../../source/answers";
import type { Where } from "../../source/source";
import type { Answer } from "../answer";
import { Nobody } from "../findings/Nobody";
import { findingsPlace, headPlace } from "../places";
import { Failed, Waiting } from "../states/Waiting";
import { doing } from "./facts";

interface Props {
  readonly where: Where;
  readonly answer: Answer<Report>;
}

/** The few heads that are farthest from the rest of their layers. */
export function StandsOut({ where, answer }: Props) {
  return (
    <section class="card" data-part="stands-out">
      <h2>What stands out</h2>
      <Listed answer={answer} where={where} />
      <p class="over-more">
        <a href={linkTo(findingsPlace(where))}>All findings, with their evidence</a>
      </p>
    </section>
  );
}

function Listed({ answer, where }: { answer: Answer<Report>; where: Where }) {
  if (answer.state === "waiting") return <Waiting words="Looking for patterns in every head" />;
  if (answer.state === "failed") return <Failed error={answer.error} />;
  const first = answer.value.findings.slice(0, answer.value.stand_out);
  if (!first.length) return <Nobody report={answer.value} />;
  return (
    <ol class="over-found">
      {first.map((one) => (
        <li key={`${one.label}/${one.pattern}`}>
          <a href={linkTo(headPlace(where, one.label))}>{one.label}</a>{" "}
          <span class="over-pattern">{one.pattern}</span>
          <span class="soft">{doing(one.sentence, one.label)}</span>
        </li>
      ))}
    </ol>
  );
}
