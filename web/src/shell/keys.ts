import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

// Keys: whoever is on the screen says which it listens to, and `?` lists them all.

export interface Binding {
  /** What is printed on the key: "m", "ArrowLeft", "?", "+" … */
  readonly key: string;
  readonly does: string;
  readonly run: (event: KeyboardEvent) => void;
}

interface Group {
  title: string;
  bindings: readonly Binding[]; // of the latest render
}

const groups = signal<readonly Group[]>([]);

/** Everything that answers to a key now, newest group first. */
export const activeKeys = groups;

function isTyping(event: KeyboardEvent): boolean {
  const at = event.target as HTMLElement | null;
  const editable = at?.closest("input, textarea, select, [contenteditable=true]");
  return editable !== null && editable !== undefined;
}

/** Space and Enter press what the keyboard's focus is on. */
function isPressing(event: KeyboardEvent): boolean {
  if (event.key !== " " && event.key !== "Enter") return false;
  const at = event.target instanceof Element ? event.target.closest("button, a, summary") : null;
  return at?.matches(":focus-visible") ?? false;
}

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event) || isPressing(event)) return;
  for (const group of groups.value) {
    const found = group.bindings.find((one) => one.key === event.key);
    if (!found) continue;
    event.preventDefault();
    found.run(event);
    return;
  }
}

let listening = false;

/** Listen while the component is on the screen. A newer component's keys come first. */
export function useKeys(title: string, bindings: readonly Binding[]): void {
  const group = useRef<Group>({ title, bindings });
  // Every render closes over new values. Only coming and going changes the list of groups, so that
  // whoever shows the list is not drawn anew by its own drawing.
  group.current.title = title;
  group.current.bindings = bindings;
  useEffect(() => {
    if (!listening) {
      addEventListener("keydown", onKey);
      listening = true;
    }
    const own = group.current;
    groups.value = [own, ...groups.value];
    return () => {
      groups.value = groups.value.filter((one) => one !== own);
    };
  }, []);
}

const NAMES: Readonly<Record<string, string>> = {
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  Escape: "Esc",
};

export function keyName(key: string): string {
  return NAMES[key] ?? key;
}
