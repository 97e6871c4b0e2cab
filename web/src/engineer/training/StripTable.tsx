import { count } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { Twin } from "../../parts/Twin";
import type { Strips } from "../../source/training";
import { statisticName } from "../overview/statistics";
import { cellOf, type Row } from "./choice";
import type { Mark } from "./overLimit";
import { seriesOf } from "./reading";
import { endsOf } from "./stripScale";

interface Props {
  readonly rows: readonly Row[];
  readonly strips: Strips;
  readonly marks: readonly Mark[];
}

const COLUMNS = ["head", "first", "newest", "least", "largest", "first over its limit"];

/** The strip in numbers, a row for each head. */
export function StripTable({ rows, strips, marks }: Props) {
  const over = new Map(marks.map((one) => [one.row, one]));
  const lines = rows.map((row, n) => {
    const series = seriesOf(strips, cellOf(row, strips));
    const low = endsOf(series.map((one) => one.least))?.low ?? Number.NaN;
    const high = endsOf(series.map((one) => one.largest))?.high ?? Number.NaN;
    const mark = over.get(n);
    const ends = [series[0]?.mean, series.at(-1)?.mean, low, high];
    return [
      row.label,
      ...ends.map((value, at) => <Figure key={at} value={value ?? Number.NaN} />),
      mark ? `step ${count(mark.step)}${mark.isAlarm ? ", alarm" : ""}` : "never",
    ];
  });
  return <Twin caption={statisticName(strips.statistic)} columns={COLUMNS} rows={lines} />;
}
