import { sentence } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { Twin } from "../../parts/Twin";
import { linkTo } from "../../shell/address";
import type { Finding, HeadFacts, Overview, Track } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { useAsked } from "../answer";
import { CausalCheck } from "../findings/CausalCheck";
import { KnockedOut } from "../findings/KnockedOut";
import { rowPlace } from "../places";
import { tokensIn } from "./Strip";
import { spelled } from "./spelling";
import { largestPoints } from "./trackMaths";

const MOST_POINTS = 16;

/** Every number of the head, with what it means. */
export function Statistics({
  facts,
  overview,
}: {
  facts: HeadFacts;
  overview: Overview | undefined;
}) {
  const known = Object.entries(facts.statistics);
  const missing = known.flatMap(([name, value]) => (value === null ? [name] : []));
  const dark = new Set(missing.flatMap((name) => overview?.why_unknown[name] ?? []));
  return (
    <section class="head-statistics" data-part="statistics">
      <h2>Numbers of this head</h2>
      <dl>
        {known.map(([name, value]) => (
          <div key={name} data-part={`statistic-${name}`}>
            <dt>{overview?.statistics[name]?.words ?? name.replaceAll("_", " ")}</dt>
            <dd>{value === null ? "—" : <Figure value={value} places={3} />}</dd>
          </div>
        ))}
      </dl>
      {[...dark].map((why) => (
        <p key={why} class="soft" data-part="why-unknown">
          {sentence(why)}
        </p>
      ))}
    </section>
  );
}

/** What the head was found to do, with the rows that show it, and what changes without it. */
export function Labels({ source, where, label }: { source: Source; where: Where; label: string }) {
  const report = useAsked(source, "findings", where);
  if (report.state === "failed") return <p class="soft">No labels: {report.error.message}</p>;
  if (report.state === "waiting") return <p class="soft">Looking at what stands out…</p>;
  const own = report.value.findings.filter((one) => one.label === label && one.holds);
  return (
    <>
      <section class="head-labels" data-part="labels">
        <h2>Labels</h2>
        {own.length === 0 && <p class="soft">Nothing stands out in this head.</p>}
        <ul>
          {own.map((one) => (
            <Label key={one.pattern} finding={one} where={where} />
          ))}
        </ul>
      </section>
      <section class="head-labels" data-part="knock-out">
        <h2>Without this head</h2>
        <KnockedOut report={report.value} label={label} />
        {!(label in report.value.knocked) && <CausalCheck report={report.value} />}
      </section>
    </>
  );
}

function Label({ finding, where }: { finding: Finding; where: Where }) {
  return (
    <li data-part={`label-${finding.pattern}`}>
      <b>{finding.pattern}</b> <Figure value={finding.score ?? Number.NaN} places={2} />{" "}
      <span class="soft">
        chance <Figure value={finding.chance ?? Number.NaN} places={3} />
      </span>
      <p>{finding.sentence}</p>
      {finding.rows.length > 0 && (
        <p class="head-evidence">
          Rows that show it:{" "}
          {finding.rows.map((row) => (
            <a key={row.row} href={linkTo(rowPlace(where, finding.label, row.row))}>
              {row.row} {spelled(row.token ?? "")}
            </a>
          ))}
        </p>
      )}
    </li>
  );
}

/** The largest points of the three tracks, for whoever does not see the pictures. */
export function TrackTables({ facts }: { facts: HeadFacts }) {
  const tracks = Object.entries(facts.tracks).filter((pair): pair is [string, Track] => !!pair[1]);
  return (
    <div class="head-twins">
      {tracks.map(([name, track]) => (
        <Twin
          key={name}
          caption={`${name}: largest points`}
          columns={[
            name === "entropy" ? "row" : name === "distance" ? "distance" : "key",
            "mean",
            "largest",
          ]}
          rows={largestPoints(track, MOST_POINTS).map((one) => [
            tokensIn(one.tokens),
            <Figure key="mean" value={one.mean} />,
            <Figure key="largest" value={one.largest} />,
          ])}
        />
      ))}
    </div>
  );
}
