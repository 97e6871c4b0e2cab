import { say } from "../language";

/** What a step is called, why there is one, and a question to think about before looking. */
export interface StepWords {
  readonly name: string;
  readonly title: string;
  /** At most 60 words. */
  readonly why: string;
  readonly question: string;
  readonly answer: string;
}

/** The sections of the language tables with the words of the steps, in the order of `STEPS`. */
const SECTIONS = [
  "why",
  "embedding",
  "projections",
  "scores",
  "scaling",
  "softmax",
  "sum",
  "heads",
  "real_head",
  "next_layer",
  "next_word",
  "cache",
  "cross",
] as const;

/** All steps, by number. */
export const ALL_STEPS: readonly number[] = SECTIONS.map((_, n) => n);

/** The words of a step, in the language that is shown. */
export function wordsOfStep(step: number): StepWords {
  const section = SECTIONS[step] ?? "why";
  return {
    name: say(`${section}.name`),
    title: say(`${section}.title`),
    why: say(`${section}.why`),
    question: say(`${section}.question`),
    answer: say(`${section}.answer`),
  };
}
