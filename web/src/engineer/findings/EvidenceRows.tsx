import { short } from "../../maths/format";
import { linkTo } from "../../shell/address";
import type { EvidenceRow, Finding, HeadShort } from "../../source/answers";
import type { Where } from "../../source/source";
import { shortened, spelled } from "../head/spelling";
import { KeyToken } from "../KeyToken";
import { rowPlace } from "../places";

const LETTERS = 18;

interface Props {
  readonly finding: Finding;
  readonly where: Where;
  /** Whose finding it is; undefined where the list of heads lacks it. */
  readonly head: HeadShort | undefined;
}

/** The rows that show a pattern best, and one that does not. */
export function EvidenceRows({ finding, where, head }: Props) {
  const { rows, counter, label } = finding;
  if (!rows.length && !counter) return null;
  return (
    <ul class="find-rows" data-part="evidence">
      {rows.map((row) => (
        <li key={row.row}>
          <Row {...{ row, label, where, head }} />
        </li>
      ))}
      {counter && (
        <li class="find-counter" data-part="counter-example">
          <span class="soft">{counterWord(finding, counter)} </span>
          <Row row={counter} {...{ label, where, head }} />
        </li>
      )}
    </ul>
  );
}

/** A row that does not show it; or, where all do, the one that shows it least. */
function counterWord(finding: Finding, counter: EvidenceRow): string {
  const isLeast =
    finding.pattern === "inactive" || (counter.value ?? 0) >= (finding.threshold ?? 0);
  return isLeast ? "least at" : "not at";
}

interface RowProps extends Omit<Props, "finding"> {
  readonly row: EvidenceRow;
  readonly label: string;
}

function Row({ row, label, where, head }: RowProps) {
  const name = row.last === row.row ? `row ${row.row}` : `rows ${row.row}–${row.last}`;
  return (
    <>
      <a href={linkTo(rowPlace(where, label, row.row))}>
        {name} {row.token !== null && <code>{shortened(spelled(row.token), LETTERS)}</code>}
      </a>{" "}
      <span class="figure" data-value={row.value ?? ""}>
        {!row.exact && "≥ "}
        {short(row.value ?? Number.NaN)}
      </span>
      {row.key !== null && row.weight !== null && (
        <span class="soft">
          {" "}
          → key {row.key}{" "}
          {row.key_token !== null && (
            <KeyToken {...{ where, head }} at={row.key}>
              <code>{shortened(spelled(row.key_token), LETTERS)}</code>
            </KeyToken>
          )}{" "}
          <span class="figure" data-value={row.weight}>
            {short(row.weight)}
          </span>
        </span>
      )}
    </>
  );
}
