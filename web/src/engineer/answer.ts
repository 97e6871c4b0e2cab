import { useEffect, useState } from "preact/hooks";
import { SourceError } from "../source/source";

/** A question on its way to its answer. */
export type Answer<T> =
  | { readonly state: "waiting" }
  | { readonly state: "here"; readonly value: T }
  | { readonly state: "failed"; readonly error: SourceError };

const WAITING = { state: "waiting" } as const;

/** Ask again whenever something it depends on changes; an answer that comes too late is dropped. */
export function useAnswer<T>(
  ask: (stop: AbortSignal) => Promise<T>,
  depends: readonly unknown[],
): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>(WAITING);
  useEffect(() => {
    const control = new AbortController();
    setAnswer(WAITING);
    ask(control.signal).then(
      (value) => {
        if (!control.signal.aborted) setAnswer({ state: "here", value });
      },
      (error: unknown) => {
        if (!control.signal.aborted) setAnswer({ state: "failed", error: asSourceError(error) });
      },
    );
    return () => control.abort();
  }, depends);
  return answer;
}

export function asSourceError(error: unknown): SourceError {
  if (error instanceof SourceError) return error;
  throw error; // a mistake of ours: it belongs in the console
}
