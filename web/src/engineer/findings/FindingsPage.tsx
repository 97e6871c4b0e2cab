import { useEffect, useState } from "preact/hooks";
import { count } from "../../maths/format";
import { linkTo, place } from "../../shell/address";
import type { Overview, Report } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { useFindings } from "../answer";
import { Caveat } from "../Caveat";
import { titleInWords } from "../overview/facts";
import { headPlace } from "../places";
import { Empty } from "../states/Empty";
import { markReady } from "../states/ready";
import { Standing } from "../states/Standing";
import { Failed, Waiting } from "../states/Waiting";
import { CausalCheck } from "./CausalCheck";
import { Chips } from "./Chips";
import { FindingCard } from "./FindingCard";
import { Nobody } from "./Nobody";
import "./findings.css";

const UNCLEAR = "unclear";
const AT_ONCE = 24;

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
}

/** Every label of every head with its evidence, the most surprising first. */
export function FindingsPage(props: Props) {
  return props.overview.heads.length ? <Asked {...props} /> : <Empty overview={props.overview} />;
}

function Asked({ source, where, overview }: Props) {
  const answer = useFindings(source, where, overview);
  return (
    <main class="page find" data-part="findings">
      <h1>Findings</h1>
      <p class="soft">{titleInWords(overview.prompts[where.prompt]?.title ?? overview.name)}</p>
      <Standing overview={overview} />
      <Caveat words={overview.caveat} />
      {answer.state === "waiting" && (
        <Waiting
          words={`Looking for every pattern in ${count(overview.heads.length)} heads; of a long text this takes some seconds`}
        />
      )}
      {answer.state === "failed" && <Failed error={answer.error} />}
      {answer.state === "here" && <Found report={answer.value} {...{ where, overview }} />}
    </main>
  );
}

interface FoundProps extends Omit<Props, "source"> {
  readonly report: Report;
}

function Found({ report, where, overview }: FoundProps) {
  const chosen = place.value.label ?? "";
  useEffect(() => markReady("findings"), []);
  return (
    <>
      <Chips counts={report.counts} chosen={chosen in report.counts ? chosen : ""} />
      {report.doubts.map((doubt) => (
        <p key={doubt} class="notice warning">
          {doubt}
        </p>
      ))}
      {chosen === UNCLEAR ? (
        <Unclear report={report} where={where} />
      ) : (
        <Cards key={chosen} {...{ report, where, overview, chosen }} />
      )}
      <NotLookedFor report={report} />
    </>
  );
}

function Cards({ report, where, overview, chosen }: FoundProps & { readonly chosen: string }) {
  const [most, setMost] = useState(AT_ONCE);
  const found = report.findings.filter(
    (one) => !(chosen in report.counts) || one.pattern === chosen,
  );
  if (!found.length) return <Nobody report={report} />;
  return (
    <>
      <p class="soft" data-part="finding-count">
        {count(found.length)} {found.length === 1 ? "label" : "labels"}, the most surprising first
      </p>
      <div class="find-cards">
        {found.slice(0, most).map((one) => (
          <FindingCard
            key={`${one.label}/${one.pattern}`}
            finding={one}
            heads={overview.heads}
            {...{ report, where }}
          />
        ))}
      </div>
      {most < found.length && (
        <button type="button" data-part="more" onClick={() => setMost(most + 4 * AT_ONCE)}>
          Show more ({count(found.length - most)} left)
        </button>
      )}
    </>
  );
}

function Unclear({ report, where }: { report: Report; where: Where }) {
  const heads = report.heads.filter((one) => one.labels.includes(UNCLEAR));
  return (
    <section data-part="unclear">
      <p>
        Of these {count(heads.length)} heads no number passes its threshold and its test against
        chance, or too little of their attention is not on sinks. Unclear is an answer.
      </p>
      <ul class="find-plain">
        {heads.map((one) => (
          <li key={one.label}>
            <a href={linkTo(headPlace(where, one.label))}>{one.label}</a>
            <NotKnown of={one.not_known} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A head whose sinks are not known may park all the same. */
function NotKnown({ of }: { of: Readonly<Record<string, string>> }) {
  return of.sink ? <span class="soft"> sink: not known, {of.sink}</span> : null;
}

function NotLookedFor({ report }: { report: Report }) {
  const unknown = Object.entries(report.unknown);
  return (
    <footer class="find-end soft">
      {unknown.length > 0 && (
        <p data-part="not-looked-for">
          Not known, or not looked for:{" "}
          {unknown.map(([name, why]) => `${name} (${why})`).join(", ")}.
        </p>
      )}
      <CausalCheck report={report} />
    </footer>
  );
}
