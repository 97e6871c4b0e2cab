import { useEffect, useRef, useState } from "preact/hooks";
import type { Answers, Overview, Report } from "../source/answers";
import { type Asked, type Source, SourceError, type Where } from "../source/source";
import { comebacks, noteFailure } from "./states/connection";

/** A question on its way to its answer. */
export type Answer<T> =
  | { readonly state: "waiting" }
  | { readonly state: "here"; readonly value: T }
  | { readonly state: "failed"; readonly error: SourceError };

const WAITING = { state: "waiting" } as const;

/**
 * Ask again whenever something it depends on changes, and when a server that was gone is back; an
 * answer that comes too late is dropped. With `keep`, the old answer stays until the new one comes.
 */
export function useAnswer<T>(
  ask: (stop: AbortSignal) => Promise<T>,
  depends: readonly unknown[],
  keep = false,
): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>(WAITING);
  const [mistake, setMistake] = useState<{ readonly error: unknown } | null>(null);
  const isMissed = useRef(false); // the last question, whatever answer is kept meanwhile
  const round = useRound(isMissed);
  useEffect(() => {
    const control = new AbortController();
    setAnswer((old) => (keep && old.state === "here" ? old : WAITING));
    ask(control.signal).then(
      (value) => {
        if (control.signal.aborted) return;
        isMissed.current = false;
        setAnswer({ state: "here", value });
      },
      (error: unknown) => {
        if (control.signal.aborted) return;
        if (!(error instanceof SourceError)) return setMistake({ error });
        isMissed.current = error.isGone;
        noteFailure(error);
        setAnswer((old) =>
          keep && error.isGone && old.state === "here" ? old : { state: "failed", error },
        );
      },
    );
    return () => control.abort();
  }, [...depends, round]);
  if (mistake) throw mistake.error; // of ours: the boundary around the room says so
  return answer;
}

/** The answer of that name; asked again where the question, or what it is `due` to, changes. */
export function useAsked<N extends keyof Answers>(
  source: Source,
  name: N,
  asked: Asked<N>,
  { due, keep }: { readonly due?: unknown; readonly keep?: boolean } = {},
): Answer<Answers[N]> {
  const depends = [source, JSON.stringify(asked), due];
  return useAnswer((stop) => source.ask(name, asked, stop), depends, keep);
}

/** Every finding; of a recording that grows asked for once now, and once when it is finished. */
export function useFindings(source: Source, where: Where, overview: Overview): Answer<Report> {
  const due = overview.live ? -1 : overview.revision;
  return useAsked(source, "findings", where, { due, keep: true });
}

/** Counts the comebacks of the server that a failed question has waited for. */
function useRound(isMissed: { readonly current: boolean }): number {
  const [round, setRound] = useState(0);
  const seen = useRef(comebacks.value);
  useEffect(() => {
    if (comebacks.value === seen.current) return;
    seen.current = comebacks.value;
    if (isMissed.current) setRound((old) => old + 1);
  }, [comebacks.value]);
  return round;
}

export function asSourceError(error: unknown): SourceError {
  if (error instanceof SourceError) return error;
  throw error; // a mistake of ours: it belongs in the console
}

/** The value, where it is here. */
export function arrived<T>(answer: Answer<T>): T | undefined {
  return answer.state === "here" ? answer.value : undefined;
}
