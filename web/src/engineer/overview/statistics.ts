import type { Grid, Overview, Scale, Stack } from "../../source/answers";

const CODES = { hidden: 0, first: 1, last: 255 } as const;
const BEYOND_ONE = 1.001;

function linear(name: string, low: number, high: number): Scale {
  return { name, low, high, log: false, ...CODES };
}

/** From where to where a statistic is coloured: what can be, else what there is. */
export function scaleOf(statistic: string, overview: Overview): Scale {
  const name = titleOf(overview, statistic);
  const values = overview.stacks.flatMap((stack) => knownOf(stack.grids[statistic] ?? null));
  const span = overview.statistics[statistic]?.span ?? "spread";
  const high = Math.max(...values, Number.NEGATIVE_INFINITY);
  if (span === "one" && !(high > BEYOND_ONE)) return linear(name, 0, 1);
  if (span === "one") return linear(name, 0, high);
  if (span === "entropy") return linear(`${name}, nats`, 0, largestEntropy(overview));
  if (!values.length) return linear(name, 0, 1);
  const low = Math.min(...values);
  return linear(name, low, high > low ? high : low + 1);
}

function largestEntropy(overview: Overview): number {
  const keys = Math.max(2, ...overview.heads.map((one) => one.shape[1]));
  return Math.log(keys);
}

/** As readers know it. */
export function titleOf(overview: Overview, statistic: string): string {
  return overview.statistics[statistic]?.title ?? statisticName(statistic);
}

/** normalized_entropy → normalized entropy */
export function statisticName(statistic: string): string {
  return statistic.replaceAll("_", " ");
}

/** Every number of a grid that is known. */
export function knownOf(grid: Grid | null): number[] {
  return (grid ?? []).flat().filter((value): value is number => value !== null);
}

export function valueAt(stack: Stack, statistic: string, layer: number, head: number): number {
  return stack.grids[statistic]?.[layer]?.[head] ?? Number.NaN;
}

/** A bar from zero to the value, as shares of the room; zero lies at the left where none is below. */
export function barOf(value: number, scale: Scale): { left: number; width: number } {
  const low = Math.min(scale.low, 0);
  const room = Math.max(scale.high, 0) - low;
  const at = (one: number) => Math.min(Math.max((one - low) / room, 0), 1);
  return { left: at(Math.min(value, 0)), width: at(Math.max(value, 0)) - at(Math.min(value, 0)) };
}

export interface Ranked {
  readonly label: string;
  readonly value: number;
}

/** Heads by a statistic, those without a number left out. */
export function ranked(
  overview: Overview,
  statistic: string,
  order: "high" | "low",
): readonly Ranked[] {
  const stacks = new Map(overview.stacks.map((stack) => [stack.name, stack]));
  const found = overview.heads.flatMap(({ label, stack, layer, head }) => {
    const one = stacks.get(stack);
    const value = one ? valueAt(one, statistic, layer, head) : Number.NaN;
    return Number.isNaN(value) ? [] : [{ label, value }];
  });
  const sign = order === "high" ? -1 : 1;
  return found.sort((a, b) => sign * (a.value - b.value));
}

export interface LayerEntropy {
  readonly low: number;
  readonly middle: number;
  readonly high: number;
}

/** The least, the median and the largest of each layer's heads; null where none is known. */
export function entropyByLayer(grid: Grid | null): readonly (LayerEntropy | null)[] {
  return (grid ?? []).map((row) => {
    const known = row.filter((value): value is number => value !== null).sort((a, b) => a - b);
    const [low, high] = [known[0], known.at(-1)];
    if (low === undefined || high === undefined) return null;
    const half = (known.length - 1) / 2;
    const middle = ((known[Math.floor(half)] ?? 0) + (known[Math.ceil(half)] ?? 0)) / 2;
    return { low, middle, high };
  });
}
