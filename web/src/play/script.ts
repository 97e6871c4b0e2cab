import { useEffect } from "preact/hooks";
import { amend, go, place } from "../shell/address";
import type { ScriptStep } from "./api";
import { choose, chosenOf, cuts, off, pinWord, toggleEdge, toggleHead } from "./place";
import { PLAIN } from "./sampling";
import type { Readings } from "./store";
import { goBack, step } from "./Writing";

const PACE = 900; // milliseconds between two steps

/** A scenario that was given to `regard play --script`, done once, step by step. */
export function useScript(steps: readonly ScriptStep[], readings: Readings): void {
  useEffect(() => {
    if (!steps.length || place.peek().p) return;
    let isOver = false;
    void (async () => {
      for (const one of steps) {
        if (isOver) return;
        await perform(one, readings);
        document.documentElement.dataset.script = one.do;
        await settled(readings, () => isOver);
        await pause(one.do === "wait" ? 0 : PACE);
      }
      document.documentElement.dataset.script = "done";
    })();
    return () => {
      isOver = true;
    };
  }, []);
}

async function perform({ do: verb, words }: ScriptStep, readings: Readings): Promise<void> {
  const [first = "", second = ""] = words;
  const shown = readings.shown.peek();
  const texts = shown?.reading.texts ?? [];
  if (verb === "prompt") go({ view: "play", p: first });
  else if (verb === "compare") amend({ b: first });
  else if (verb === "hover" || verb === "pin") pinWord(wordOf(texts, first));
  else if (verb === "head") {
    const which = chosenOf(first);
    if (which) choose(which);
  } else if (verb === "off" && !off.peek().includes(first)) toggleHead(first);
  else if (verb === "on" && off.peek().includes(first)) toggleHead(first);
  else if (verb === "cut") cut(wordOf(texts, first), wordOf(texts, second));
  else if (verb === "next" && shown) step(shown, PLAIN);
  else if (verb === "back") goBack();
  else if (verb === "wait") await pause(1000 * Number(first));
}

function cut(query: number | null, key: number | null): void {
  if (query === null || key === null) return;
  if (!cuts.peek().some((one) => one[0] === query && one[1] === key)) toggleEdge(query, key, "");
}

/** By its number, or the last word with this text. */
function wordOf(texts: readonly string[], name: string): number | null {
  if (/^\d+$/.test(name) && Number(name) < texts.length) return Number(name);
  const found = texts.findLastIndex((text) => text.trim() === name);
  return found < 0 ? null : found;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}

async function settled(readings: Readings, isOver: () => boolean): Promise<void> {
  await pause(0);
  while (readings.busy.peek() && !isOver()) await pause(50);
}
