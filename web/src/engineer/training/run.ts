import type { Overview, TrainingFacts } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import type { Strips } from "../../source/training";
import { type Answer, useAnswer, useAsked } from "../answer";
import { LOSS } from "./loss";

// The questions of the training room. While a run goes on the overview is asked every two seconds;
// where it tells of something new, these are asked again and what is drawn stays meanwhile.

const MOST_BINS = 2048;
const LEAST_BINS = 256;
const GOOD_CELLS = 2 ** 20; // numbers of one statistic

export function useTraining(
  source: Source,
  where: Where,
  overview: Overview | undefined,
): Answer<TrainingFacts> {
  const asked = { ...where, prompt: 0 }; // whatever text is looked at, the run is one
  const due = overview?.revision ?? 0;
  const answer = useAsked(source, "training", asked, { due, keep: true });
  const isOther = answer.state === "here" && answer.value.recording !== where.recording;
  return isOther ? { state: "waiting" } : answer;
}

export type AllStrips = ReadonlyMap<string, Strips>;

/** Every statistic and the loss, for they are read beside each other. */
export function useStrips(source: Source, where: Where, facts: TrainingFacts): Answer<AllStrips> {
  const names = [...(facts.loss ? [LOSS] : []), ...Object.keys(facts.statistics)];
  const depends = [source, where.recording, facts.revision, names.join()];
  return useAnswer(
    async (stop) => {
      const ask = (name: string) => source.strips(where, name, binsFor(facts), stop);
      const found = await Promise.all(names.map(ask));
      return new Map(found.map((one) => [one.statistic, one]));
    },
    depends,
    true,
  );
}

/** Fewer bins where there are many heads. */
export function binsFor(facts: TrainingFacts): number {
  const cells = facts.places.length * Math.max(1, ...facts.heads);
  return Math.min(Math.max(Math.floor(GOOD_CELLS / cells), LEAST_BINS), MOST_BINS);
}
