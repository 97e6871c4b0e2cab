import { short } from "../../maths/format";
import { linkTo } from "../../shell/address";
import type { Finding, HeadShort, Report } from "../../source/answers";
import type { Where } from "../../source/source";
import { doing } from "../overview/facts";
import { headPlace } from "../places";
import { EvidenceRows } from "./EvidenceRows";
import { KnockedOut } from "./KnockedOut";
import { ScoreBar } from "./ScoreBar";

interface Props {
  readonly finding: Finding;
  readonly report: Report;
  readonly where: Where;
  readonly heads: readonly HeadShort[];
}

/** One label of one head: what it does, how sure that is, and where to see it. */
export function FindingCard({ finding, report, where, heads }: Props) {
  const head = heads.find((one) => one.label === finding.label);
  return (
    <article
      class="card find-card"
      data-part="finding"
      data-head={finding.label}
      data-pattern={finding.pattern}
    >
      <header>
        <h2>
          <a href={linkTo(headPlace(where, finding.label))}>{finding.label}</a>{" "}
          <span class="find-pattern">{finding.pattern}</span>
        </h2>
        <span
          class="soft"
          title="how far its number lies from the median of its layer, in robust deviations"
        >
          <span class="figure" data-value={finding.surprise ?? ""}>
            {short(finding.surprise ?? Number.NaN)}
          </span>{" "}
          deviations from its layer
        </span>
      </header>
      <p class="find-sentence" data-part="sentence">
        {doing(finding.sentence, finding.label)}
      </p>
      <ScoreBar finding={finding} />
      <EvidenceRows {...{ finding, where, head }} />
      <KnockedOut report={report} label={finding.label} />
    </article>
  );
}
