import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

interface Field {
  readonly name: string;
  readonly least?: number;
  readonly most: number;
  readonly value: number;
}

interface Props {
  readonly open: Signal<boolean>;
  readonly title: string;
  readonly fields: readonly Field[];
  readonly go: (numbers: readonly number[]) => void;
}

/** Numbers to go to: a row and a key, or a row. */
export function GoTo({ open, title, fields, go }: Props) {
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (open.value) first.current?.select();
  }, [open.value]);
  if (!open.value) return null;
  return (
    <form
      class="head-goto"
      data-part="goto"
      aria-label={title}
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        go(fields.map((field) => Number(form.get(field.name))));
        open.value = false;
      }}
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
            type="number"
            min={field.least ?? 0}
            max={field.most}
            defaultValue={String(field.value)}
            required
          />
        </label>
      ))}
      <button type="submit">Go</button>
      <button type="button" class="quiet" onClick={() => (open.value = false)}>
        Close
      </button>
    </form>
  );
}
