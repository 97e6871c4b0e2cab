import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { activeKeys, keyName, useKeys } from "./keys";
import { switchTheme } from "./theme";

const isOpen = signal(false);

/** Every key that works here, on `?`. */
export function Help() {
  useKeys("Page", [
    { key: "?", does: "this list", run: () => (isOpen.value = !isOpen.value) },
    { key: "d", does: "dark or light", run: switchTheme },
    ...(isOpen.value ? [{ key: "Escape", does: "close", run: () => (isOpen.value = false) }] : []),
  ]);
  return isOpen.value ? <KeyList /> : null;
}

function KeyList() {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const own = dialog.current;
    own?.showModal();
    return () => own?.close(); // the focus goes back to where it was
  }, []);
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-label="Keys"
      onCancel={() => (isOpen.value = false)}
      onClick={(event) => {
        if (event.target === dialog.current) isOpen.value = false; // beside the list
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") isOpen.value = false;
      }}
    >
      <header>
        <h2>Keys</h2>
        <button type="button" onClick={() => (isOpen.value = false)}>
          Close
        </button>
      </header>
      {activeKeys.value.map((group) => (
        <section key={group.title}>
          <h3>{group.title}</h3>
          <dl>
            {group.bindings.map((one) => (
              <div key={one.key}>
                <dt>
                  <kbd>{keyName(one.key)}</kbd>
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
  return (
    <button type="button" class="quiet" title="Keys (?)" onClick={() => (isOpen.value = true)}>
      <span aria-hidden="true">?</span>
      <span class="unseen">Keys</span>
    </button>
  );
}
