import { figure } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { say } from "../language";
import type { Reading } from "./pairs";

/** From the smallest number to the largest, 0 with them. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

export function rangeOf(readings: readonly Reading[]): Range {
  const all = readings.flatMap(({ before, after }) => [...before, ...after]);
  return { low: Math.min(0, ...all), high: Math.max(0, ...all) };
}

/** Where a bar begins and how long it is, in %: to the left of 0 where it is negative. */
export function barOf(value: number, { low, high }: Range) {
  const whole = high - low || 1;
  return {
    left: (100 * (Math.min(value, 0) - low)) / whole,
    width: (100 * Math.abs(value)) / whole,
  };
}

interface Props {
  readonly names: readonly { readonly name: string; readonly label: string }[];
  readonly reading: Reading;
  readonly range: Range;
  readonly word: string;
}

/** Each feature of the word before and after. */
export function FeatureBars({ names, reading, range, word }: Props) {
  const bar = (value: number) => {
    const { left, width } = barOf(value, range);
    return { left: `${left}%`, width: `${width}%` };
  };
  const look = (kind: string, value: number) => (value < 0 ? `${kind} is-negative` : kind);
  return (
    <figure class="story-features">
      <figcaption>{say("why.bars_caption", { word })}</figcaption>
      <ul>
        {names.map(({ name, label }, n) => {
          const [before, after] = [reading.before[n] ?? 0, reading.after[n] ?? 0];
          const words = { feature: label, before: figure(before, 2), after: figure(after, 2) };
          return (
            <li key={name} data-part="feature" data-feature={name} data-value={String(after)}>
              <span class="story-feature-name">{label}</span>
              <span class="story-track" role="img" aria-label={say("why.spoken", words)}>
                <i class="story-zero" style={{ left: bar(0).left }} />
                <i class={look("is-before", before)} style={bar(before)} />
                <i class={look("is-after", after)} style={bar(after)} />
              </span>
              <Figure value={after} places={2} />
            </li>
          );
        })}
      </ul>
      <p class="story-legend soft">
        <i class="is-before" aria-hidden="true" /> {say("why.before")}
        <i class="is-after" aria-hidden="true" /> {say("why.after")}
      </p>
    </figure>
  );
}
