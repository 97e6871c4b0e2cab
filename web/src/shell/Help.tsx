import { signal } from "@preact/signals";
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
  if (!isOpen.value) return null;
  return (
    <dialog open class="help" aria-label="Keys">
      <h2>Keys</h2>
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
      <button type="button" onClick={() => (isOpen.value = false)}>
        Close
      </button>
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
