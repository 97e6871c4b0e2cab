import type { Source, Where } from "../../source/source";
import { nameOf, partAt } from "../picture/layout";
import type { Naming } from "./tokenBook";

/** The names of a head's queries or keys, where these are patches or moments. */
export function namesOf(
  source: Source,
  where: Where,
  label: string,
  side: "queries" | "keys",
): Naming {
  return async () => {
    const sight = await source.ask("sight", where);
    const own = sight.places[label.replace(/H\d+$/, "")];
    const axis = own && sight.axes[own[side]];
    if (!axis) return null;
    return (n) => (partAt(axis, n)?.kind === "text" ? null : compact(nameOf(axis, n)));
  };
}

/** Without spaces, which in a token are spelled: (2,5), register-1, 0.42s. */
export function compact(name: string): string {
  return name
    .replace(/^patch /, "")
    .replace(/, /g, ",")
    .replace(/ s$/, "s")
    .replace(/ /g, "-");
}
