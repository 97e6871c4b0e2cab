import { amend, type Place } from "../../shell/address";
import { PAIRS, type Pair } from "./pairs";

// Which pair of sentences is compared stands in the address: one of those offered by its number,
// one's own by its sentences.

export const OWN = PAIRS.length;

export interface ChosenPair extends Pair {
  /** Its number among those offered, or OWN. */
  readonly number: number;
}

export function pairIn(at: Place): ChosenPair {
  const [first, second] = PAIRS[0]?.sentences ?? ["", ""];
  if (at.first !== undefined || at.second !== undefined) {
    const sentences = [at.first ?? first, at.second ?? second] as const;
    return { number: OWN, word: at.word ?? "", sentences };
  }
  const asked = PAIRS.findIndex((_, n) => `${n}` === at.pair);
  const number = Math.max(asked, 0);
  return { number, ...(PAIRS[number] as Pair) };
}

/** One of those offered; one's own begins with the sentences that are there. */
export function choosePair(number: number, now: Pair): void {
  if (number === OWN) putPair({ word: "", sentences: now.sentences });
  else
    amend({
      pair: number ? `${number}` : undefined,
      first: undefined,
      second: undefined,
      word: undefined,
    });
}

export function putPair({ word, sentences: [first, second] }: Pair): void {
  amend({ pair: undefined, first, second, word: word || undefined });
}
