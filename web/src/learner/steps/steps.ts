import { embedding } from "./embedding";
import { heads } from "./heads";
import { nextLayer } from "./nextLayer";
import { projections } from "./projections";
import { realHead } from "./realHead";
import { scaling } from "./scaling";
import { scores } from "./scores";
import { softmax } from "./softmax";
import type { Step } from "./step";
import { weightedSum } from "./weightedSum";

/** In the order of the lesson; `WORDS` has their words at the same places. */
export const STEPS: readonly Step[] = [
  embedding,
  projections,
  scores,
  scaling,
  softmax,
  weightedSum,
  heads,
  realHead,
  nextLayer,
];
