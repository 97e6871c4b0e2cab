import type { TrainingFacts } from "../../source/answers";
import type { Strips } from "../../source/training";
import { binOf, cellOf, type Row } from "./choice";

/** Where a head first went over the limit of a statistic. */
export interface Mark {
  readonly row: number;
  readonly label: string;
  readonly step: number;
  readonly bin: number;
  readonly value: number;
  /** It stayed there, so that the monitor said so. */
  readonly isAlarm: boolean;
}

/** One for each head that was ever over; an alarm's own step counts before a shorter visit. */
export function marksOf(
  facts: TrainingFacts,
  rows: readonly Row[],
  strips: Strips,
): readonly Mark[] {
  const own = facts.alarms.filter((one) => one.statistic === strips.statistic);
  const alarms = new Map(own.map((one) => [one.head, one]));
  return rows.flatMap((one, row) => {
    const alarm = alarms.get(one.label);
    const cell = cellOf(one, strips);
    const step = alarm?.step ?? strips.over[cell] ?? -1;
    if (step < 0) return [];
    const value = alarm ? (alarm.value ?? Number.NaN) : (strips.overValue[cell] ?? Number.NaN);
    const bin = binOf(step, strips);
    return [{ row, label: one.label, step, bin, value, isAlarm: alarm !== undefined }];
  });
}
