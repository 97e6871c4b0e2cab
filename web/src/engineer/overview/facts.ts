import { count } from "../../maths/format";
import type { Overview, Stack } from "../../source/answers";
import { legible } from "../head/spelling";

/** Whole numbers for people: 0–3, 5, 7–9. */
export function runs(numbers: readonly number[]): string {
  const found: [number, number][] = [];
  for (const n of numbers) {
    const last = found.at(-1);
    if (last && n === last[1] + 1) last[1] = n;
    else found.push([n, n]);
  }
  return found.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)).join(", ");
}

/** Which heads zoom to single weights. */
export function layersInWords(overview: Overview): string {
  const { heads, stacks } = overview;
  const exact = heads.filter((one) => one.exact);
  if (exact.length === heads.length)
    return `all ${count(heads.length)} heads zoom to single weights`;
  if (!exact.length) return "no head zooms to single weights; summaries are shown";
  const where = stacks.flatMap(({ name }) => {
    const layers = new Set(exact.filter((one) => one.stack === name).map((one) => one.layer));
    if (!layers.size) return [];
    const listed = runs([...layers].sort((a, b) => a - b));
    return [`${name ? `${name} ` : ""}layer${layers.size > 1 ? "s" : ""} ${listed}`];
  });
  return (
    `${count(exact.length)} of ${count(heads.length)} heads zoom to single weights ` +
    `(${where.join("; ")}); of the others summaries were stored`
  );
}

/** 1 layer, 2 layers */
export function counted(n: number, what: string): string {
  return `${count(n)} ${what}${n === 1 ? "" : "s"}`;
}

const FLOW: readonly string[] = ["", "vision", "encoder", "decoder", "cross"];

/** Stacks as a text passes through them. */
export function inOrder(stacks: readonly Stack[]): readonly Stack[] {
  const rank = ({ name }: Stack) => (FLOW.includes(name) ? FLOW.indexOf(name) : FLOW.length);
  return [...stacks].sort((a, b) => rank(a) - rank(b));
}

/** 40 queries × 120 keys, of the heads of a stack. */
export function shapeInWords(overview: Overview, stack: Stack): string {
  const [queries, keys] = overview.heads.find((one) => one.stack === stack.name)?.shape ?? [0, 0];
  return `${count(queries)} queries × ${count(keys)} keys`;
}

/** 30 layers × 9 heads; or each stack by its name. */
export function sizeInWords(overview: Overview): string {
  return inOrder(overview.stacks)
    .map(({ name, layers, heads }) => {
      const size = `${counted(layers, "layer")} × ${counted(heads, "head")}`;
      return name ? `${name} ${size}` : size;
    })
    .join(", ");
}

const CUT = 80; // letters, where a recorder cuts a title

/** With an ellipsis where it was cut. */
export function titleInWords(title: string): string {
  return legible([...title].length >= CUT ? `${title}…` : title);
}

/** The sentence behind the head's label. */
export function doing(sentence: string, label: string): string {
  return sentence.startsWith(label) ? sentence.slice(label.length).trim() : sentence;
}
