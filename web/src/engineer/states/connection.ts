import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Source, SourceError } from "../../source/source";

// Whether the server, or the kernel, answers. Whoever is refused an answer says so here; while it is gone it is
// asked again every few seconds, and what failed meanwhile is asked anew when it is back.

const CALM = 10_000; // milliseconds between two looks while all is well
const SOON = 2_500;

/** Nobody answers at the server's address. */
export const isGone = signal(false);

/** How often the server came back. */
export const comebacks = signal(0);

export function noteFailure(error: SourceError): void {
  if (error.isGone) isGone.value = true;
}

function noteAnswer(): void {
  if (!isGone.value) return;
  isGone.value = false;
  comebacks.value += 1;
}

/** Look whether the server is there. */
export async function lookForServer(source: Source): Promise<void> {
  try {
    await source.recordings();
    noteAnswer();
  } catch (error) {
    const found = error as SourceError;
    if (found.isGone) isGone.value = true;
    else noteAnswer();
  }
}

/** Keep an eye on the server as long as the page is looked at. */
export function useConnection(source: Source): void {
  const wait = isGone.value ? SOON : CALM;
  useEffect(() => {
    if (source.kind === "file") return;
    if (source.kind === "kernel" && !isGone.value) return; // it is busy with what is asked of it
    const timer = setInterval(() => {
      if (!document.hidden) lookForServer(source);
    }, wait);
    return () => clearInterval(timer);
  }, [source, wait]);
}
