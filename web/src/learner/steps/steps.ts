import { cache } from "../story/cache";
import { cross } from "../story/cross";
import { nextWord } from "../story/nextWord";
import { why } from "../story/why";
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

/** By number, in the order of the lesson; `wordsOfStep` has their words. */
export const STEPS: readonly Step[] = [
  why,
  embedding,
  projections,
  scores,
  scaling,
  softmax,
  weightedSum,
  heads,
  realHead,
  nextLayer,
  nextWord,
  cache,
  cross,
];
