import type { Signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { nextAfter, numberIn, textsOf, tokensWith } from "../words";
import type { TokenBook } from "./tokenBook";

interface Field {
  readonly name: string;
  readonly least?: number;
  readonly most: number;
  readonly value: number;
  /** Whose tokens words are looked for in. */
  readonly book: TokenBook;
}

interface Props {
  readonly open: Signal<boolean>;
  readonly title: string;
  readonly fields: readonly Field[];
  readonly go: (numbers: readonly number[]) => void;
}

/** Where to go: a row and a key, or a row; each by its number or by words of the text. */
export function GoTo({ open, title, fields, go }: Props) {
  const first = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (open.value) first.current?.select();
  }, [open.value]);
  if (!open.value) return null;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const texts = fields.map((field) => String(form.get(field.name) ?? ""));
    const found = await Promise.all(fields.map((field, n) => meant(field, texts[n] ?? "")));
    const lost = found.indexOf(null);
    if (lost >= 0) return setProblem(unknown(fields[lost] as Field, texts[lost] ?? ""));
    setProblem("");
    open.value = false;
    go(found.map((one) => one ?? 0));
  };
  return (
    <form
      class="head-goto"
      data-part="goto"
      aria-label={title}
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key === "Escape") open.value = false;
      }}
    >
      {fields.map((field, n) => (
        <label key={field.name}>
          {field.name}
          <input
            ref={n === 0 ? first : null}
            name={field.name}
            type="text"
            placeholder="number or words"
            autocomplete="off"
            spellcheck={false}
            defaultValue={String(field.value)}
            required
          />
        </label>
      ))}
      <button type="submit">Go</button>
      <button type="button" class="quiet" onClick={() => (open.value = false)}>
        Close
      </button>
      {problem && (
        <span class="over-problem" role="alert">
          {problem}
        </span>
      )}
    </form>
  );
}

/** The token that a text means: its number, or where the words stand next; null for neither. */
async function meant(field: Field, text: string): Promise<number | null> {
  const least = field.least ?? 0;
  const number = numberIn(text, least, field.most);
  if (number !== null) return number;
  const found = tokensWith(await textsOf(field.book, field.most + 1), text);
  const there = found.filter((one) => one >= least);
  return nextAfter(there, field.value) ?? null;
}

function unknown(field: Field, text: string): string {
  const range = `${field.least ?? 0}–${field.most}`;
  return `${text || "Nothing"} is no ${field.name} (${range}) and not in the text.`;
}
