import { count, short } from "../../maths/format";
import type { Limit, TrainedStatistic } from "../../source/answers";
import { statisticName } from "../overview/statistics";
import { chooseStatistic, type Row } from "./choice";
import type { Mark } from "./overLimit";
import { ReadingLine } from "./ReadingLine";
import type { Reading } from "./reading";

interface Props {
  readonly name: string;
  readonly statistic: TrainedStatistic;
  readonly isActive: boolean;
  readonly marks: readonly Mark[];
  readonly row: Row | undefined;
  readonly reading: Reading | undefined;
}

/** What a strip is about, its limit, and the number that is pointed at. */
export function StripHeader({ name, statistic, isActive, marks, row, reading }: Props) {
  return (
    <header class="train-header">
      <h2>
        <button
          type="button"
          class="quiet train-name"
          aria-pressed={isActive}
          data-part="choose-strip"
          onClick={() => chooseStatistic(name)}
        >
          {statisticName(name)}
        </button>
      </h2>
      <p class="soft train-words">
        {statistic.words}
        {statistic.limit && <LimitWords limit={statistic.limit} marks={marks} />}
      </p>
      <p class="train-reading" data-part="strip-reading" data-head={row?.label ?? ""}>
        {row && reading ? (
          <ReadingLine label={row.label} reading={reading} />
        ) : (
          isActive && <span class="soft">Point at a head and a step to read it.</span>
        )}
      </p>
    </header>
  );
}

function LimitWords({ limit, marks }: { limit: Limit; marks: readonly Mark[] }) {
  const first = Math.min(...marks.map((one) => one.step));
  const side = limit.side === "above" ? "over" : "under";
  const found =
    marks.length === 0
      ? `no head was ever ${side}`
      : `${count(marks.length)} ${marks.length === 1 ? "head" : "heads"} ${side}, ` +
        `the first at step ${count(first)}`;
  return (
    <span data-part="limit" data-value={limit.value}>
      {"; "}
      {limit.customary && "customary "}limit {limit.side === "above" ? ">" : "<"}{" "}
      {short(limit.value)}: {found}
    </span>
  );
}
