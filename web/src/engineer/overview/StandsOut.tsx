import { linkTo } from "../../shell/address";
import type { Overview, Report } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { type Answer, useFindings } from "../answer";
import { Nobody } from "../findings/Nobody";
import { findingsPlace, headPlace } from "../places";
import { Failed, Waiting } from "../states/Waiting";
import { doing } from "./facts";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
  /** The grid comes first: the report is asked for when it is drawn. */
  readonly isTime: boolean;
}

/** The few heads that are farthest from the rest of their layers. */
export function StandsOut({ source, where, overview, isTime }: Props) {
  return (
    <section class="card" data-part="stands-out">
      <h2>What stands out</h2>
      {isTime ? (
        <Asked source={source} where={where} overview={overview} />
      ) : (
        <Waiting words="Drawing the heads first" />
      )}
    </section>
  );
}

function Asked({ source, where, overview }: Omit<Props, "isTime">) {
  const answer = useFindings(source, where, overview);
  return (
    <>
      <Listed answer={answer} where={where} />
      <p class="over-more">
        <a href={linkTo(findingsPlace(where))}>All findings, with their evidence</a>
      </p>
    </>
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
