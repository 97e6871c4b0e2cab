import type { LessonState } from "../state";
import { dataScript } from "./saved";

const DATA = "regard-data";

/** This very page as one file that opens anywhere, with the changes made so far. */
export async function savedPage(state: LessonState): Promise<string> {
  const copy = document.documentElement.cloneNode(true) as HTMLElement;
  copy.querySelector("#page")?.replaceChildren();
  delete copy.dataset.presenting; // it opens to be read
  await takeIn(copy);
  const data = copy.querySelector(`#${DATA}`) ?? addedData(copy);
  data.textContent = dataScript(state);
  return `<!doctype html>\n${copy.outerHTML}`;
}

function addedData(copy: HTMLElement): HTMLElement {
  const script = document.createElement("script");
  script.type = "application/json";
  script.id = DATA;
  copy.querySelector("body")?.append(script);
  return script;
}

/** A served page's script and style sheet are files beside it: put their text in their place. */
async function takeIn(copy: HTMLElement): Promise<void> {
  for (const link of copy.querySelectorAll<HTMLLinkElement>("link[rel=stylesheet]")) {
    const style = document.createElement("style");
    style.textContent = await textOf(link.href);
    link.replaceWith(style);
  }
  for (const old of copy.querySelectorAll<HTMLScriptElement>("script[src]")) {
    const script = document.createElement("script");
    script.type = "module";
    script.textContent = (await textOf(old.src)).replaceAll("</script", "<\\/script");
    old.replaceWith(script);
  }
}

async function textOf(address: string): Promise<string> {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} could not be read (${answer.status})`);
  return answer.text();
}
