import { computed } from "@preact/signals";
import { amend, go, type Place, place } from "../shell/address";
import type { Asked } from "./api";

// What is on the screen, as words in the address: a reload, the back button and a server that was
// started again bring it back.
//
//   p, q     the prompt; the second sentence, or the second prompt of a comparison (b)
//   t        tokens that were appended
//   off cut  heads and edges that are switched off
//   at mode  which head, and whether it, its layer's mean or the rollout is shown
//   pin      the word that is pinned
//   temp k n temperature, top-k, top-p
//   from     in the engineer's room: the first two lines, of which the recording was made

export type Mode = "head" | "layer" | "rollout";

export interface Chosen {
  readonly stack: string;
  readonly layer: number;
  readonly head: number;
}

const LABEL = /^(?:(\w+)\.)?L(\d{1,4})H(\d{1,4})$/;

export function labelOf({ stack, layer, head }: Chosen): string {
  return `${stack ? `${stack}.` : ""}L${layer}H${head}`;
}

export function chosenOf(label: string | undefined): Chosen | null {
  const found = LABEL.exec(label ?? "");
  if (!found) return null;
  return { stack: found[1] ?? "", layer: Number(found[2]), head: Number(found[3]) };
}

function list(text: string | undefined): string[] {
  return (text ?? "").split(",").filter(Boolean);
}

function edgesOf(text: string | undefined): [number, number, string][] {
  return list(text).flatMap((one): [number, number, string][] => {
    const [query, key, head = ""] = one.split("~");
    const ends = [Number(query), Number(key)] as const;
    return ends.every((n) => Number.isInteger(n) && n >= 0) ? [[...ends, head]] : [];
  });
}

/** What the server is asked for; `text` null while nothing was typed. */
export function askedOf(at: Place): Asked | null {
  if (!at.p && !at.sound) return null;
  return {
    text: at.p ?? "",
    pair: at.q ?? "",
    sound: at.sound ?? "",
    more: list(at.t).map(Number).filter(Number.isInteger),
    heads: list(at.off),
    edges: edgesOf(at.cut),
  };
}

const ASKED = ["p", "q", "sound", "t", "off", "cut"] as const;

/** What was asked for at a place, as one word. */
export function fromOf(at: Place): string {
  const words = ASKED.flatMap((name) => (at[name] ? [[name, at[name]]] : []));
  return new URLSearchParams(words as [string, string][]).toString();
}

/** The words of it. */
export function wordsOf(from: string | undefined): Place {
  return Object.fromEntries(new URLSearchParams(from ?? ""));
}

export const off = computed(() => list(place.value.off));
export const cuts = computed(() => edgesOf(place.value.cut));
export const mode = computed<Mode>(() => {
  const named = place.value.mode;
  return named === "layer" || named === "rollout" ? named : "head";
});
export const chosen = computed(() => chosenOf(place.value.at));
export const pinned = computed(() => {
  const { pin } = place.value;
  return pin !== undefined && /^\d+$/.test(pin) ? Number(pin) : null;
});

/** A new prompt: a step that the back button undoes. Switches stay, heads stay; tokens and pins of
 * the old one go. */
export function submit(words: Readonly<Record<string, string>>): void {
  const { p, q, t, cut, pin, sound, ...kept } = place.value;
  const given = Object.entries(words).filter((pair) => pair[1] !== "");
  go({ ...kept, view: "play", ...Object.fromEntries(given) });
}

export function choose(which: Chosen, how: Mode = "head"): void {
  amend({ at: labelOf(which), mode: wordFor(how) });
}

export function setMode(next: Mode): void {
  amend({ mode: wordFor(next) });
}

function wordFor(how: Mode): string | undefined {
  return how === "head" ? undefined : how;
}

export function pinWord(row: number | null): void {
  amend({ pin: row === null ? undefined : String(row) });
}

export function toggleHead(label: string): void {
  const now = off.peek();
  const next = now.includes(label) ? now.filter((one) => one !== label) : [...now, label];
  amend({ off: next.length ? next.join(",") : undefined });
}

export function toggleEdge(query: number, key: number, head: string): void {
  const now = cuts.peek();
  const rest = now.filter((one) => !(one[0] === query && one[1] === key && one[2] === head));
  const next = rest.length < now.length ? rest : [...now, [query, key, head]];
  amend({ cut: next.length ? next.map((one) => one.join("~")).join(",") : undefined });
}

export function restore(): void {
  amend({ off: undefined, cut: undefined });
}

export function tokensBehind(): number[] {
  return list(place.peek().t).map(Number).filter(Number.isInteger);
}

export function setTokens(tokens: readonly number[]): void {
  amend({ t: tokens.length ? tokens.join(",") : undefined, pin: undefined });
}
