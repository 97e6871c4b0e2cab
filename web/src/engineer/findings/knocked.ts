import type { Report } from "../../source/answers";

/** What a knock-out changes, beside the median of heads drawn by lot. */
export interface Change {
  readonly name: string;
  readonly value: number;
  readonly typical: number;
}

const CHANGES: readonly [part: string, number: string, name: string][] = [
  ["text", "delta_logprob", "Δ log-probability of the next token"],
  ["text", "delta_logit", "Δ logit of the next token"],
  ["text", "kl", "KL of the next-token distribution, nats"],
  ["copying", "delta_logprob", "Δ log-probability of a copied token"],
  ["copying", "delta_logit", "Δ logit of a copied token"],
];

function numberIn(part: unknown, name: string): number {
  const value = (part as Readonly<Record<string, unknown>> | undefined)?.[name];
  return typeof value === "number" ? value : Number.NaN;
}

/** What was kept of a head's knock-out; nothing where none was. */
export function changesOf(report: Report, label: string): readonly Change[] {
  const found = report.knocked[label];
  if (!found) return [];
  return CHANGES.map(([part, number, name]) => ({
    name,
    value: numberIn(found[part], number),
    typical: numberIn(found[part], `typical_${number}`),
  }));
}
