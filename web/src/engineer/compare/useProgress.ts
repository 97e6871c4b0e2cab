import { useEffect, useState } from "preact/hooks";
import type { Progress } from "../../source/answers";
import type { Asked, Source } from "../../source/source";

const EVERY = 700; // ms

/** How far a comparison is, asked now and then while one waits for it. */
export function useProgress(
  source: Source,
  asked: Asked<"progress">,
  isWaiting: boolean,
): Progress | null {
  const [progress, setProgress] = useState<Progress | null>(null);
  const question = JSON.stringify(asked);
  useEffect(() => {
    if (!isWaiting) return;
    const ask = () => source.ask("progress", asked).then(setProgress, () => undefined);
    const timer = setInterval(ask, EVERY);
    return () => clearInterval(timer);
  }, [source, question, isWaiting]);
  return isWaiting ? progress : null;
}
