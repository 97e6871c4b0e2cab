import { linkTo, place } from "../../shell/address";
import type { Source, Where } from "../../source/source";

/** Where shared numbers come from. */
export interface Origin {
  readonly recording: string;
  readonly model: string;
  readonly prompt: number;
  readonly link: string; // "" in a notebook's widget, which has no address
}

export async function originOf(source: Source, where: Where): Promise<Origin> {
  const listing = (await source.recordings())[where.recording];
  return {
    recording: listing?.name ?? "",
    model: String(listing?.model.name ?? ""),
    prompt: where.prompt,
    link: source.kind === "kernel" ? "" : linkNow(),
  };
}

/** "demo.regard, smollm2" */
export function originWords({ recording, model }: Origin): string {
  return [recording, model].filter(Boolean).join(", ");
}

/** The address of what is shown; the token is not part of it. */
export function linkNow(): string {
  return `${location.href.split("#")[0]}${linkTo(place.value)}`;
}
