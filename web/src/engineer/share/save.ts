import { linkTo, place } from "../../shell/address";
import type { Source, Where } from "../../source/source";

/** Hand a file to the reader. */
export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The address of what is shown; the token is not part of it. */
export function linkNow(): string {
  return `${location.href.split("#")[0]}${linkTo(place.value)}`;
}

/** One file that shows the head without a server: the server makes it, or it is this page. */
export function pageOf(source: Source, where: Where, head: string): Promise<Blob> {
  return source.page ? source.page(where, head) : Promise.resolve(thisDocument());
}

/** This page as it came, without what has been drawn on it since. */
function thisDocument(): Blob {
  const copy = document.documentElement.cloneNode(true) as HTMLElement;
  copy.querySelector("#page")?.replaceChildren();
  for (const name of Object.keys(copy.dataset)) delete copy.dataset[name];
  return new Blob([`<!doctype html>\n${copy.outerHTML}`], { type: "text/html" });
}
