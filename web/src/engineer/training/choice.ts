import { amend, place } from "../../shell/address";
import type { Alarm, TrainingFacts } from "../../source/answers";
import type { Strips } from "../../source/training";

// What is meant, as words in the address: a statistic, a head, a step.

export interface Row {
  readonly label: string;
  readonly place: number;
  readonly head: number;
}

export interface Choice {
  readonly statistic: string;
  /** Its place among the rows; undefined where none is chosen. */
  readonly row: number | undefined;
  readonly step: number;
  /** Whether the step was chosen; else it is the newest. */
  readonly hasStep: boolean;
}

/** Every head, layer by layer. */
export function rowsOf(facts: TrainingFacts): readonly Row[] {
  return facts.places.flatMap((name, at) =>
    Array.from({ length: facts.heads[at] ?? 0 }, (_, head) => ({
      label: `${name}H${head}`,
      place: at,
      head,
    })),
  );
}

/** Where a head's numbers lie in each bin. */
export function cellOf(row: Row, strips: Strips): number {
  return row.place * strips.heads + row.head;
}

/** The bin of a step: the last that begins at it or before. */
export function binOf(step: number, strips: Strips): number {
  let low = 0;
  let high = strips.first.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((strips.first[middle] ?? 0) <= step) low = middle + 1;
    else high = middle;
  }
  return Math.max(low - 1, 0);
}

export function choiceOf(facts: TrainingFacts, rows: readonly Row[]): Choice {
  const { stat = "", head, step } = place.value;
  const names = Object.keys(facts.statistics);
  const at = rows.findIndex((one) => one.label === head);
  const asked = Number(step ?? Number.NaN);
  const hasStep = Number.isInteger(asked) && asked >= 0;
  return {
    statistic: names.includes(stat) ? stat : (names[0] ?? ""),
    row: at < 0 ? undefined : at,
    step: hasStep ? asked : (facts.steps?.[1] ?? 0),
    hasStep,
  };
}

/** Where a reader with the arrow keys begins: at the first alarm, else at the newest step. */
export function firstChoice(facts: TrainingFacts, rows: readonly Row[], choice: Choice): Choice {
  if (choice.row !== undefined) return choice;
  const alarm = facts.alarms.find((one) => one.statistic === choice.statistic);
  const at = rows.findIndex((one) => one.label === alarm?.head);
  if (!alarm || at < 0) return { ...choice, row: 0 };
  return { ...choice, row: at, step: alarm.step };
}

/** The alarm after the one that is meant; the first where none is. */
export function nextAlarm(facts: TrainingFacts, rows: readonly Row[], choice: Choice) {
  const label = choice.row === undefined ? undefined : rows[choice.row]?.label;
  const isMeant = (one: Alarm) =>
    one.head === label && one.statistic === choice.statistic && one.step === choice.step;
  return facts.alarms[(facts.alarms.findIndex(isMeant) + 1) % facts.alarms.length];
}

/** Down and to the right; the edges hold. */
export function moved(
  choice: Choice,
  by: { readonly rows?: number; readonly bins?: number },
  rows: number,
  strips: Strips,
): Choice {
  const clamp = (n: number, count: number) => Math.min(Math.max(n, 0), Math.max(count - 1, 0));
  const bins = strips.first.length;
  const bin = clamp(binOf(choice.step, strips) + (by.bins ?? 0), bins);
  const row = clamp((choice.row ?? 0) + (by.rows ?? 0), rows);
  const step = by.bins === undefined ? choice.step : (strips.first[bin] ?? choice.step);
  return { ...choice, row, step };
}

/** The last stored step that is not after a step. */
export function lastUpTo(step: number, stored: readonly number[]): number | undefined {
  return stored.filter((one) => one <= step).at(-1);
}

export function chooseStatistic(statistic: string): void {
  amend({ stat: statistic });
}

export function chooseStep(step: number): void {
  amend({ step: String(step) });
}

export function choose(statistic: string, head: string, step: number): void {
  amend({ stat: statistic, head, step: String(step) });
}
