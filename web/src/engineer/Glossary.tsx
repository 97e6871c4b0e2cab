import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useKeys } from "../shell/keys";

// Words that a reader meets, each explained one click away.

/** The term that is explained; "" for the whole list, null while it is closed. */
const opened = signal<string | null>(null);

/** What there is to explain; it comes with the overview. */
export const terms = signal<Readonly<Record<string, string>>>({});

/** A word whose explanation is one click away; plain text where there is none. */
export function Term({ name, children }: { name: string; children?: ComponentChildren }) {
  if (!(name in terms.value)) return <>{children ?? name}</>;
  return (
    <button
      type="button"
      class="term"
      data-part="term"
      data-term={name}
      title={terms.value[name]}
      onClick={() => (opened.value = name)}
    >
      {children ?? name}
    </button>
  );
}

export function GlossaryButton() {
  useKeys("Page", [{ key: "w", does: "glossary", run: () => (opened.value = "") }]);
  if (!Object.keys(terms.value).length) return null;
  return (
    <button
      type="button"
      class="quiet"
      data-part="glossary-button"
      title="What the words mean (w)"
      onClick={() => (opened.value = "")}
    >
      Glossary
    </button>
  );
}

export function Glossary() {
  return opened.value === null ? null : <Explained name={opened.value} />;
}

function Explained({ name }: { name: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const meant = useRef<HTMLDivElement>(null);
  const close = () => (opened.value = null);
  useLayoutEffect(() => {
    const own = dialog.current;
    own?.showModal();
    return () => own?.close();
  }, []);
  useEffect(() => meant.current?.scrollIntoView({ block: "nearest" }), [name]);
  return (
    <dialog
      ref={dialog}
      class="help glossary"
      data-part="glossary"
      aria-label="Glossary"
      onCancel={close}
      onClick={(event) => {
        if (event.target === dialog.current) close(); // beside the list
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") close();
      }}
    >
      <header>
        <h2>Glossary</h2>
        <button type="button" onClick={close}>
          Close
        </button>
      </header>
      <dl>
        {Object.entries(terms.value).map(([term, words]) => (
          <div
            key={term}
            {...(term === name ? { ref: meant } : {})}
            data-term={term}
            data-chosen={term === name}
          >
            <dt>{term}</dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
