import { useEffect, useState } from "preact/hooks";
import type { Overview } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { type Answer, useAsked } from "../answer";

const LOOK_EVERY = 2_000; // milliseconds, while it is being written

/** The overview; asked again as long as the recording grows, the reader's place kept. */
export function useOverview(source: Source, where: Where): Answer<Overview> {
  const [looks, setLooks] = useState(0);
  const answer = useAsked(source, "overview", where, { due: looks, keep: true });
  const isLive = answer.state === "here" && answer.value.live;
  useEffect(() => {
    if (!isLive) return;
    const timer = setTimeout(() => setLooks((n) => n + 1), LOOK_EVERY);
    return () => clearTimeout(timer);
  }, [answer, isLive]);
  return isOf(answer, where) ? answer : { state: "waiting" };
}

/** Whether it is about that prompt, and not about the one that was looked at before. */
function isOf(answer: Answer<Overview>, where: Where): boolean {
  if (answer.state !== "here") return true;
  return answer.value.recording === where.recording && answer.value.prompt === where.prompt;
}
