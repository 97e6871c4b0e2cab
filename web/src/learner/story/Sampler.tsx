import { type Signal, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { figure } from "../../maths/format";
import type { Vector } from "../../maths/matrix";
import {
  byLargest,
  choicesIn,
  type Fall,
  fallOf,
  probabilitiesOf,
  tiedFirst,
} from "../../maths/nextWord";
import { Random } from "../../maths/random";
import { entropy } from "../../maths/softmax";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";

const TOP = 10;
const COLDEST = 0.1;
const HOTTEST = 3;

/** The temperature, and how often a word was drawn. */
export interface Draws {
  readonly temperature: Signal<number>;
  readonly count: Signal<number>;
  /** Whether the last draw is still of these logits. */
  readonly isFresh: Signal<boolean>;
}

export function makeDraws(): Draws {
  return { temperature: signal(1), count: signal(0), isFresh: signal(false) };
}

interface Props {
  readonly draws: Draws;
  readonly part: string;
  readonly words: readonly string[];
  readonly logits: Vector;
  /** Of the draws; the same seed gives the same numbers. */
  readonly seed: number;
  /** What can be done with a word that was drawn. */
  readonly after?: (word: string) => ComponentChildren;
}

/** Logits at a temperature: the likeliest words, and a draw among all of them. */
export function Sampler({ draws, part, words, logits, seed, after }: Props) {
  const { temperature, count, isFresh } = draws;
  const shares = probabilitiesOf(logits, temperature.value);
  const order = byLargest(logits);
  const at = isFresh.value ? new Random(seed, count.value).uniform() : null;
  const fall = at === null ? null : fallOf(shares, order, at);
  const word = fall && (words[fall.index] ?? "");
  return (
    <div class="story-sampler" data-part={part}>
      <Temperature temperature={temperature} />
      <Likeliest words={words} logits={logits} shares={shares} order={order} fall={fall} />
      {temperature.value === 0 && <Tied logits={logits} word={words[order[0] ?? 0] ?? ""} />}
      <p class="soft" data-part="entropy">
        <Say
          name="next_word.entropy"
          with={{
            entropy: <Figure value={entropy(shares)} places={2} />,
            choices: figure(choicesIn(shares), isWhole(choicesIn(shares)) ? 0 : 1),
          }}
        />
      </p>
      <Interval words={words} shares={shares} order={order} at={at} fall={fall} />
      <div class="lab-controls">
        <button
          type="button"
          data-part="draw"
          onClick={() => {
            count.value += 1;
            isFresh.value = true;
          }}
        >
          {say(isFresh.value ? "next_word.draw_again" : "next_word.draw")}
        </button>
        {count.value > 1 && (
          <button
            type="button"
            class="quiet"
            data-part="restart-draws"
            onClick={() => {
              count.value = 1;
              isFresh.value = true;
            }}
          >
            {say("next_word.restart")}
          </button>
        )}
        {word !== null && after?.(word)}
      </div>
      <p data-part="drawn" role="status" data-word={word ?? undefined}>
        {fall && at !== null ? (
          <Say
            name="next_word.drawn"
            with={{
              number: count.value,
              at: <Figure value={at} />,
              from: figure(fall.from),
              to: figure(fall.to),
              word: shown(word ?? ""),
            }}
          />
        ) : (
          <span class="soft">{say("next_word.seeded")}</span>
        )}
      </p>
    </div>
  );
}

/** At temperature 0 one word has it all, however many are as good. */
function Tied({ logits, word }: { logits: Vector; word: string }) {
  const count = tiedFirst(logits) - 1;
  if (!count) return null;
  return (
    <p role="status" data-part="tied" data-value={String(count)}>
      <Say name="next_word.tied" with={{ word: shown(word), count }} />
    </p>
  );
}

/** A token without the space it begins with; one that is only a space is seen. */
export function shown(word: string): string {
  return word.trim() || "␣";
}

function Temperature({ temperature }: { temperature: Signal<number> }) {
  const value = temperature.value;
  return (
    <div class="lab-controls">
      <label class="lab-slider">
        <span>
          {say("next_word.temperature")} τ = <b class="figure">{figure(value, 1)}</b>
        </span>
        <input
          type="range"
          min={COLDEST}
          max={HOTTEST}
          step={0.1}
          data-part="temperature"
          value={Math.max(value, COLDEST)}
          onInput={(event) => {
            temperature.value = Number(event.currentTarget.value);
          }}
        />
      </label>
      <button
        type="button"
        data-part="temperature-zero"
        aria-pressed={value === 0}
        onClick={() => {
          temperature.value = value === 0 ? 1 : 0;
        }}
      >
        {say("next_word.temperature_zero")}
      </button>
    </div>
  );
}

interface LikeliestProps {
  readonly words: readonly string[];
  readonly logits: Vector;
  readonly shares: Vector;
  readonly order: readonly number[];
  readonly fall: Fall | null;
}

function Likeliest({ words, logits, shares, order, fall }: LikeliestProps) {
  const rest = order.slice(TOP);
  const most = shares[order[0] ?? 0] || 1;
  return (
    <table class="story-likeliest" data-part="likeliest">
      <thead>
        <tr>
          <th scope="col">{say("next_word.word")}</th>
          <th scope="col">{say("next_word.logit")}</th>
          <th scope="col" class="weight" colSpan={2}>
            {say("next_word.probability")}
          </th>
        </tr>
      </thead>
      <tbody>
        {order.slice(0, TOP).map((n) => (
          <tr key={n} class={fall?.index === n ? "is-drawn" : ""} data-word={words[n]}>
            <th scope="row">{shown(words[n] ?? "")}</th>
            <td>
              <Figure value={logits[n] ?? 0} places={2} />
            </td>
            <td class="story-share">
              <i aria-hidden="true" style={{ width: `${(100 * (shares[n] ?? 0)) / most}%` }} />
            </td>
            <td class="weight">
              <Figure value={shares[n] ?? 0} places={3} />
            </td>
          </tr>
        ))}
        {rest.length > 0 && (
          <tr class="soft">
            <th scope="row">{say("next_word.rest", { count: rest.length })}</th>
            <td />
            <td />
            <td>
              <Figure value={rest.reduce((sum, n) => sum + (shares[n] ?? 0), 0)} places={3} />
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

interface IntervalProps {
  readonly words: readonly string[];
  readonly shares: Vector;
  readonly order: readonly number[];
  readonly at: number | null;
  readonly fall: Fall | null;
}

const NAMED = 0.08; // a part of the interval with room for its word

/** The unit interval, cut by the probabilities; a draw is a point of it. */
function Interval({ words, shares, order, at, fall }: IntervalProps) {
  const top = order.slice(0, TOP).filter((n) => (shares[n] ?? 0) > 0);
  const rest = 1 - top.reduce((sum, n) => sum + (shares[n] ?? 0), 0);
  return (
    <figure class="story-interval" data-part="interval">
      <figcaption class="soft">{say("next_word.interval")}</figcaption>
      <div class="story-unit" aria-hidden="true">
        {top.map((n) => (
          <span
            key={n}
            class={fall?.index === n ? "is-drawn" : ""}
            title={shown(words[n] ?? "")}
            style={{ width: `${100 * (shares[n] ?? 0)}%` }}
          >
            {(shares[n] ?? 0) > NAMED ? shown(words[n] ?? "") : ""}
          </span>
        ))}
        {rest > 1e-9 && <span class="is-rest" style={{ width: `${100 * rest}%` }} />}
        {at !== null && <i class="story-point" style={{ left: `${100 * at}%` }} />}
      </div>
      <div class="story-unit-ends soft figure" aria-hidden="true">
        <span>0</span>
        <span>1</span>
      </div>
    </figure>
  );
}

/** Whether it reads as a whole number with one decimal. */
function isWhole(value: number): boolean {
  return Math.abs(value - Math.round(value)) < 0.05;
}
