import { computed, signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import type english from "../../../src/regard/learn/languages/en.json";

// Every sentence of the lesson stands in src/regard/learn/languages, one table per language, which
// the page carries as data. Here sentences are called by name, "section.name"; the types are those
// of the English table, so that a name that is not there does not compile.

type Sections = typeof english;
export type Sentence = {
  [S in keyof Sections & string]: `${S}.${keyof Sections[S] & string}`;
}[keyof Sections & string];

type Text = string | { readonly one: string; readonly other: string };
export type Table = Readonly<Record<string, Readonly<Record<string, Text>>>>;
export type Tables = Readonly<Record<string, Table>>;

/** A sentence that Python chose: its name and its values. */
export interface Phrase {
  readonly say: string;
  readonly values: Values;
}

/** A list is joined with the language's comma. */
type Value = string | number | Phrase | readonly string[];
type Values = Readonly<Record<string, Value>>;

const tables = signal<Tables>({});
const chosen = signal("en");

/** The code of the language that is shown: "en", "de", "zh". */
export const language = computed(() => chosen.value);

/** The languages there are, by code. */
export const languages = computed(() => Object.keys(tables.value));

/** The tables of the page, and the language asked for; without one, that of the browser. */
export function startLanguage(given: Tables, asked?: string): void {
  tables.value = given;
  const wanted = [asked, ...(globalThis.navigator?.languages ?? [])];
  const codes = wanted.map((tag) => tag?.toLowerCase().split("-")[0] ?? "");
  chooseLanguage(codes.find((code) => code in given) ?? "en");
}

export function chooseLanguage(code: string): void {
  if (!(code in tables.value)) return;
  chosen.value = code;
  if (globalThis.document) document.documentElement.lang = code;
}

function textOf(name: string, count: Value | undefined): string {
  const [section = "", own = ""] = name.split(".");
  const text = tables.value[chosen.value]?.[section]?.[own];
  if (text === undefined) throw new Error(`no sentence "${name}" in "${chosen.value}"`);
  if (typeof text === "string") return text;
  return count === 1 ? text.one : text.other;
}

const VALUE = /\{([a-z_]+)\}/g;
const MARK = /<([a-z]+)>(.*?)<\/\1>/g;

/** The sentence as text: for names that are spoken, titles, files. */
export function say(name: Sentence, values: Values = {}): string {
  return spoken(name, values);
}

/** A sentence that was chosen elsewhere: by Python, or before the language was. */
export function sayPhrase({ say: name, values }: Phrase): string {
  return spoken(name, values);
}

/** A sentence to be said where it is shown, so that another language reaches it. */
export function phrase(name: Sentence, values: Values = {}): Phrase {
  return { say: name, values };
}

/** a, b and c; of many the first six and how many more. */
export function listed(names: readonly string[], most = 6): string {
  const rest = names.length - most;
  if (rest > 0) return say("list.more", { names: names.slice(0, most), count: rest });
  if (names.length < 2) return names.join("");
  return say("list.last", { names: names.slice(0, -1), last: names.at(-1) ?? "" });
}

function spoken(name: string, values: Values): string {
  const plain = textOf(name, values.count).replace(MARK, "$2");
  return plain.replaceAll(VALUE, (_, key: string) => {
    const value = values[key];
    if (value === undefined) throw new Error(`no value {${key}} for "${name}"`);
    if (typeof value !== "object") return String(value);
    return isList(value) ? value.join(say("list.comma")) : sayPhrase(value);
  });
}

function isList(value: Phrase | readonly string[]): value is readonly string[] {
  return Array.isArray(value);
}

interface SayProps {
  readonly name: Sentence;
  /** For each {key} of the sentence: text, a number or anything that can be drawn. */
  readonly with?: Readonly<Record<string, ComponentChildren>>;
}

/** The sentence on the page, with its marked words: <b> bold, <weight>, <q>, <k>, <v>, <output> in
 * their colours, <soft>, <code>. */
export function Say({ name, with: values = {} }: SayProps): JSX.Element {
  const text = textOf(name, values.count as Value | undefined);
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const found of text.matchAll(MARK)) {
    parts.push(...filled(text.slice(from, found.index), values, name));
    parts.push(marked(found[1] ?? "", filled(found[2] ?? "", values, name)));
    from = found.index + found[0].length;
  }
  parts.push(...filled(text.slice(from), values, name));
  return <>{parts}</>;
}

function filled(text: string, values: Readonly<Record<string, ComponentChildren>>, name: string) {
  return text.split(VALUE).map((part, n) => {
    if (n % 2 === 0) return part;
    if (!(part in values)) throw new Error(`no value {${part}} for "${name}"`);
    return values[part];
  });
}

function marked(mark: string, children: ComponentChildren) {
  if (mark === "code") return <code>{children}</code>;
  if (mark === "em") return <em>{children}</em>;
  if (mark === "soft") return <span class="soft">{children}</span>;
  return mark === "b" ? <b>{children}</b> : <b class={mark}>{children}</b>;
}
