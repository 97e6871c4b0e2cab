import { figure } from "../../maths/format";
import type { Vector } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { place } from "../../shell/address";
import { Choice } from "../labs/Lab";
import { Say, say } from "../language";
import { problemOf } from "../make";
import { goToStep, type LessonState } from "../state";
import { FeatureBars, rangeOf } from "./FeatureBars";
import { featureNames } from "./features";
import { OwnPair } from "./OwnPair";
import { choosePair, OWN, pairIn } from "./pairPlace";
import { actingHead, commonWords, PAIRS, type Reading, readingsOf } from "./pairs";

const SAME = 1e-9;

/** One word in two sentences: the same numbers before, others after. */
export function Meanings({ state }: { state: LessonState }) {
  const pair = pairIn(place.value);
  const canBeRead = pair.sentences.every((sentence) => problemOf(sentence) === null);
  const common = canBeRead ? commonWords(state.lesson, pair.sentences) : [];
  const word = common.includes(pair.word) ? pair.word : common[0];
  return (
    <section data-part="meanings">
      <Choice
        part="pair"
        words={say("why.choose")}
        options={[
          ...PAIRS.map(({ word: text }, n) => ({ value: n, text })),
          { value: OWN, text: say("why.own") },
        ]}
        chosen={pair.number}
        choose={(value) => choosePair(value, pair)}
      />
      {pair.number === OWN && <OwnPair pair={pair} common={common} word={word} />}
      {canBeRead && word === undefined && <p role="status">{say("why.nothing_common")}</p>}
      {word !== undefined && <Compared state={state} sentences={pair.sentences} word={word} />}
    </section>
  );
}

interface ComparedProps {
  readonly state: LessonState;
  readonly sentences: readonly [string, string];
  readonly word: string;
}

function Compared({ state, sentences, word }: ComparedProps) {
  const names = featureNames(state.lesson);
  const readings = readingsOf(state.lesson, sentences, word);
  const head = actingHead(readings);
  const range = rangeOf(readings);
  const unknown = [...new Set(readings.flatMap((reading) => reading.unknown))];
  return (
    <>
      <div class="story-pair">
        {readings.map((reading, n) => (
          <article class="story-meaning card" key={n} data-part={`meaning-${n}`}>
            <Weighted reading={reading} head={head} word={word} />
            <FeatureBars names={names} reading={reading} range={range} word={word} />
            <button
              type="button"
              data-part={`work-${n}`}
              onClick={() => workThrough(state, sentences[n] ?? "")}
            >
              {say(n === 0 ? "why.work_first" : "why.work_second")}
            </button>
          </article>
        ))}
      </div>
      <p class="story-verdict" data-part="verdict" role="status">
        <Verdict readings={readings} word={word} labels={names.map(({ label }) => label)} />
      </p>
      {unknown.length > 0 && (
        <p class="soft" data-part="unknown-words">
          {say("why.unknown", { words: unknown.join(", "), count: unknown.length })}
        </p>
      )}
      <p class="soft">
        {say("why.honest", {
          features: names
            .slice(0, 4)
            .map(({ label }) => label)
            .join(", "),
        })}
      </p>
    </>
  );
}

interface VerdictProps {
  readonly readings: readonly [Reading, Reading];
  readonly word: string;
  readonly labels: readonly string[];
}

function Verdict({ readings: [one, other], word, labels }: VerdictProps) {
  if (one.after.every((value, n) => Math.abs(value - (other.after[n] ?? 0)) < SAME))
    return <>{say("why.verdict_same", { word })}</>;
  const [first, second] = [largestAt(one.after), largestAt(other.after)];
  const values = {
    word,
    first_value: <Figure value={one.after[first] ?? 0} places={2} />,
    second_value: <Figure value={other.after[second] ?? 0} places={2} />,
  };
  if (first === second)
    return <Say name="why.verdict_alike" with={{ ...values, feature: labels[first] ?? "" }} />;
  const features = { first: labels[first] ?? "", second: labels[second] ?? "" };
  return <Say name="why.verdict" with={{ ...values, ...features }} />;
}

function workThrough(state: LessonState, sentence: string): void {
  state.change({ sentence, vectors: "features", heads: "by-hand" });
  goToStep(state, 1);
}

/** The sentence, each word shaded by the weight that the chosen word gives it. */
function Weighted({ reading, head, word }: { reading: Reading; head: number; word: string }) {
  const weights = reading.heads[head]?.weights ?? [];
  const most = 1.25 * Math.max(...weights);
  return (
    <figure class="story-weighted" data-head={head + 1}>
      <ol>
        {reading.tokens.map((token, n) => (
          <li
            key={n}
            class={n === reading.at ? "is-chosen" : ""}
            data-part="weighted-word"
            data-value={String(weights[n])}
          >
            <span class="story-word" style={{ background: shadeOf(weights[n] ?? 0, most) }}>
              {token}
            </span>
            <span class="figure weight">{figure(weights[n] ?? 0, 2)}</span>
          </li>
        ))}
      </ol>
      <figcaption class="soft">
        <Say name={head ? "why.weights_caption_doer" : "why.weights_caption"} with={{ word }} />
      </figcaption>
    </figure>
  );
}

/** Even the largest shade leaves the word readable. */
export function shadeOf(weight: number, most = 1): string {
  return `rgb(var(--shade) / ${Math.min(0.9, weight / (most || 1)).toFixed(3)})`;
}

function largestAt(values: Vector): number {
  return values.indexOf(Math.max(...values));
}
