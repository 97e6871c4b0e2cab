import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { activeKeys, keyName, useKeys } from "./keys";
import { switchTheme } from "./theme";

const isOpen = signal(false);

interface HelpWords {
  readonly keys: string;
  readonly close: string;
  readonly page: string;
  readonly doesList: string;
  readonly doesTheme: string;
  readonly doesClose: string;
  readonly space: string;
}

export const ENGLISH: HelpWords = {
  keys: "Keys",
  close: "Close",
  page: "Page",
  doesList: "this list",
  doesTheme: "dark or light",
  doesClose: "close",
  space: "Space",
};

/** The words of the list; a room that speaks other languages hands its own over. */
export const helpWords = signal<() => HelpWords>(() => ENGLISH);

/** Every key that works here, on `?`. */
export function Help() {
  const words = helpWords.value();
  const close = { key: "Escape", does: words.doesClose, run: () => (isOpen.value = false) };
  useKeys(words.page, [
    { key: "?", does: words.doesList, run: () => (isOpen.value = !isOpen.value) },
    { key: "d", does: words.doesTheme, run: switchTheme },
    ...(isOpen.value ? [close] : []),
  ]);
  return isOpen.value ? <KeyList /> : null;
}

function KeyList() {
  const dialog = useRef<HTMLDialogElement>(null);
  const words = helpWords.value();
  useLayoutEffect(() => {
    const own = dialog.current;
    own?.showModal();
    return () => own?.close(); // the focus goes back to where it was
  }, []);
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-label={words.keys}
      onCancel={() => (isOpen.value = false)}
      onClick={(event) => {
        if (event.target === dialog.current) isOpen.value = false; // beside the list
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") isOpen.value = false;
      }}
    >
      <header>
        <h2>{words.keys}</h2>
        <button type="button" onClick={() => (isOpen.value = false)}>
          {words.close}
        </button>
      </header>
      {activeKeys.value.map((group) => (
        <section key={group.title}>
          <h3>{group.title}</h3>
          <dl>
            {group.bindings.map((one) => (
              <div key={one.key}>
                <dt>
                  <kbd>{one.key === " " ? words.space : keyName(one.key)}</kbd>
                </dt>
                <dd>{one.does}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </dialog>
  );
}

export function HelpButton() {
  const { keys } = helpWords.value();
  return (
    <button type="button" class="quiet" title={`${keys} (?)`} onClick={() => (isOpen.value = true)}>
      <span aria-hidden="true">?</span>
      <span class="unseen">{keys}</span>
    </button>
  );
}
