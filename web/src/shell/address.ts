import { computed, signal } from "@preact/signals";

// What is shown, as words in the fragment of the address: a link to a view is the address itself.
// The fragment never leaves the browser. The server's token comes in it once and is taken out.

export type Place = Readonly<Record<string, string>>;

const TOKEN = "token";
const KEPT = "regard-token";

function read(fragment = location.hash): Place {
  return Object.fromEntries(new URLSearchParams(fragment.slice(1)));
}

function written(place: Place): string {
  return `#${new URLSearchParams({ ...place }).toString()}`;
}

const current = signal<Place>({});

/** Where the reader is. */
export const place = computed(() => current.value);

/** A frame without an origin (a notebook's) has no history of its own: the place is kept here. */
let hasHistory = true;

function remember(next: Place, how: "push" | "replace"): void {
  if (how === "push" && pending) write("replace"); // the step back leads to what was left
  current.value = next;
  if (how === "push" || isQuiet()) write(how);
  else if (!pending) pending = setTimeout(() => write("replace"), SECOND / OFTEN);
}

// A slider that is dragged changes the place sixty times a second; browsers refuse addresses that
// are written as often.
const SECOND = 1000; // milliseconds
const OFTEN = 10; // times a second
const writings: number[] = []; // when the last ones were
let pending: ReturnType<typeof setTimeout> | undefined;

function isQuiet(): boolean {
  return performance.now() - (writings[0] ?? -SECOND) >= SECOND || writings.length < OFTEN;
}

function write(how: "push" | "replace"): void {
  clearTimeout(pending);
  pending = undefined;
  if (!hasHistory) return;
  writings.push(performance.now());
  if (writings.length > OFTEN) writings.shift();
  try {
    if (how === "push") history.pushState(null, "", written(current.peek()));
    else history.replaceState(null, "", written(current.peek()));
  } catch {
    hasHistory = false;
  }
}

/** The browser went somewhere by itself; what was to be written belongs to the place it left. */
function arrive(): void {
  clearTimeout(pending);
  pending = undefined;
  current.value = read();
}

/** Start from the address; returns the server's token, which is remembered for reloads. */
export function startAddress(): string {
  const { [TOKEN]: token, ...rest } = read();
  remember(rest, "replace");
  addEventListener("hashchange", arrive);
  addEventListener("popstate", arrive);
  addEventListener("pagehide", () => pending && write("replace"));
  addEventListener("click", follow);
  return keptToken(token);
}

/** In a notebook's frame a link to a fragment would load the notebook itself into the frame. */
function follow(event: MouseEvent): void {
  const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
  if (link && pending) write("replace");
  if (hasHistory || event.defaultPrevented || !link) return;
  event.preventDefault();
  current.value = read(link.getAttribute("href") ?? "");
}

/** Remember the server's token for reloads of this tab. */
export function keepToken(token: string): void {
  sessionStorage.setItem(KEPT, token);
}

function keptToken(given: string | undefined): string {
  try {
    if (given) keepToken(given);
    return given ?? sessionStorage.getItem(KEPT) ?? "";
  } catch {
    return given ?? ""; // storage is closed to this frame
  }
}

/** Words that stay wherever the reader goes, and those that stay with a recording. */
const STICKY = ["pins"] as const;
const OF_RECORDING = ["from"] as const;

function withSticky(next: Place): Place {
  const isSame = next.rec !== undefined && next.rec === current.value.rec;
  const kept = [...STICKY, ...(isSame ? OF_RECORDING : [])].flatMap((name) => {
    const word = current.value[name];
    return word === undefined ? [] : [[name, word]];
  });
  return { ...(Object.fromEntries(kept) as Place), ...next };
}

/** Go somewhere else: a step that the back button undoes. */
export function go(next: Place): void {
  remember(withSticky(next), "push");
}

/** Change some words of the place without a step back; undefined takes a word out. */
export function amend(words: Readonly<Record<string, string | undefined>>): void {
  const merged = { ...current.value, ...words };
  const kept = Object.entries(merged).filter((pair) => pair[1] !== undefined);
  remember(Object.fromEntries(kept) as Place, "replace");
}

/** The address of a place, for links (href) and for sharing: no token is in it. */
export function linkTo(next: Place): string {
  return written(withSticky(next));
}
