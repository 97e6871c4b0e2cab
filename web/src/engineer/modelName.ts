import type { Listing } from "../source/answers";

/** A model that was loaded from a folder is called by the folder's own name. */
export function modelName(listing: { readonly model: Listing["model"] } | undefined): string {
  const name = String(listing?.model.name ?? "");
  return name
    .split(/[\\/]/)
    .filter(Boolean)
    .slice(name.startsWith("/") ? -1 : 0)
    .join("/");
}
