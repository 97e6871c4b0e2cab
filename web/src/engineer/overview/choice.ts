import { amend, place } from "../../shell/address";
import type { Overview } from "../../source/answers";

// What the grid shows, as words in the address.

export type Show = "pictures" | "numbers" | "ranked";
export type Order = "high" | "low";

export interface Choice {
  /** undefined: not chosen; pictures where there are any. */
  readonly show: Show | undefined;
  readonly statistic: string;
  readonly order: Order;
}

export function choiceOf(overview: Overview): Choice {
  const { show, stat = "", order } = place.value;
  const shows: readonly string[] = ["pictures", "numbers", "ranked"];
  return {
    show: shows.includes(show ?? "") ? (show as Show) : undefined,
    statistic: stat in overview.statistics ? stat : overview.statistic,
    order: order === "low" ? "low" : "high",
  };
}

export const chooseShow = (show: Show) => amend({ show });
export const chooseStatistic = (stat: string) => amend({ stat });
export const chooseOrder = (order: Order) => amend({ order });
