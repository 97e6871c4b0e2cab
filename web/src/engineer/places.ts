import type { Place } from "../shell/address";
import type { HeadFacts, HeadShort } from "../source/answers";
import type { Where } from "../source/source";

// Places of the engineer's room, as words in the address.

function whole(text: string | undefined): number {
  const value = Number(text ?? 0);
  return Number.isInteger(value) && value >= 0 ? value : 0;
}

export function whereOf(place: Place): Where {
  return { recording: whole(place.rec), prompt: whole(place.prompt) };
}

/** Which page: a tab's (see `tabs.ts`), a head's or a row's. */
export function viewOf(place: Place): string {
  return place.view ?? "overview";
}

export function rowOf(place: Place): number {
  return whole(place.row);
}

/** What is compared with; null where nothing was chosen. */
export function otherOf(place: Place): Where | null {
  if (place.other === undefined) return null;
  return { recording: whole(place.other), prompt: whole(place.other_prompt) };
}

/** The same view of another prompt; what is only about the old one is left behind. */
export function samePlace(place: Place, where: Where): Place {
  const view = viewOf(place);
  const more = view === "head" && place.head ? { head: place.head } : {};
  return at(where, view === "row" ? "overview" : view, more);
}

function at(where: Where, view: string, more: Place = {}): Place {
  return { view, rec: String(where.recording), prompt: String(where.prompt), ...more };
}

export const tabPlace = (where: Where, view: string) => at(where, view);
export const overviewPlace = (where: Where) => at(where, "overview");
export const findingsPlace = (where: Where) => at(where, "findings");
export const comparePlace = (where: Where, other: Where) =>
  at(where, "compare", { other: String(other.recording), other_prompt: String(other.prompt) });
export const trainingPlace = (where: Where, more: Place = {}) => at(where, "training", more);
export const headPlace = (where: Where, head: string, more: Place = {}) =>
  at(where, "head", { head, ...more });
export const rowPlace = (where: Where, head: string, row: number) =>
  at(where, "row", { head, row: String(row) });

/** The row of a key's own token; null where it was not recorded, or keys are not the queries. */
export function ownRowPlace(
  where: Where,
  head: HeadShort & Pick<Partial<HeadFacts>, "rows">,
  key: number,
): Place | null {
  const isRow = head.kind === "self" && key >= head.recorded[0] && key < head.recorded[1];
  const isHere = !head.rows || head.rows.includes(key);
  return isRow && isHere ? rowPlace(where, head.label, key) : null;
}
