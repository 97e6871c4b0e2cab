import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { D_KS, type Reading, scalingSteps } from "../../maths/scaling";

const SLICE = 12; // milliseconds at a time: less than a frame

export interface Readings {
  readonly byWidth: ReadonlyMap<number, Reading>;
  /** Whether some are still to come, and those of the draw before stand in for them. */
  readonly isBusy: boolean;
}

/** Readings at every d_k, the one looked at first; the page stays free while they are made. */
export function useReadings(seed: number, first: number): Readings {
  const byWidth = useSignal<ReadonlyMap<number, Reading>>(new Map());
  const measured = useSignal<number | undefined>(undefined); // the last draw that is complete
  // another `first` starts nothing new: its reading is there already, or comes soon
  useEffect(() => {
    const waiting = [first, ...D_KS.filter((d_k) => d_k !== first)];
    let timer = 0;
    let steps = scalingSteps(first, seed);
    const work = () => {
      const end = performance.now() + SLICE;
      while (waiting.length && performance.now() < end) {
        const next = steps.next();
        if (!next.done) continue;
        waiting.shift();
        byWidth.value = new Map(byWidth.value).set(next.value.d_k, next.value);
        if (waiting[0] === undefined) measured.value = seed;
        else steps = scalingSteps(waiting[0], seed);
      }
      if (waiting.length) timer = window.setTimeout(work);
    };
    work();
    return () => window.clearTimeout(timer);
  }, [seed]);
  return { byWidth: byWidth.value, isBusy: measured.value !== seed };
}
