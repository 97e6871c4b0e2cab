import { useMemo } from "preact/hooks";
import type { Likely } from "./api";
import { candidates, isPlain, PLAIN, type Sampling, shares } from "./sampling";
import { tokenText } from "./spelling";
import type { Shown } from "./store";

const BARS = 10;

export interface Bar {
  readonly id: number;
  readonly text: string;
  readonly before: number;
  readonly after: number;
  /** Whether top-k and top-p leave it among those that may be drawn. */
  readonly isKept: boolean;
}

/** The likeliest tokens of the whole model and of what is left of it, by their larger share. */
export function barsOf(whole: Shown, shown: Shown, sampling: Sampling): Bar[] {
  if (!whole.logits || !shown.logits) return [];
  const heat = sampling.temperature > 0 ? sampling.temperature : 1e-3;
  const before = shares(whole.logits, heat);
  const after = shares(shown.logits, heat);
  // without top-k and top-p nothing is left out, and no vocabulary has to be sorted
  const kept = isPlain(sampling)
    ? null
    : new Set(candidates(shown.logits, sampling).map((one) => one.id));
  const named = new Map<number, Likely>();
  for (const one of [...(shown.reading.next ?? []), ...(whole.reading.next ?? [])]) {
    named.set(one.id, one);
  }
  const size = ({ id }: Likely) => Math.max(before[id] ?? 0, after[id] ?? 0);
  return [...named.values()]
    .sort((a, b) => size(b) - size(a) || a.id - b.id)
    .slice(0, BARS)
    .map(({ id, text }) => ({
      ...{ id, text, before: before[id] ?? 0, after: after[id] ?? 0 },
      isKept: kept?.has(id) ?? true,
    }));
}

interface Props {
  readonly whole: Shown;
  readonly shown: Shown;
  readonly sampling: Sampling;
  readonly onAppend?: (id: number) => void;
  readonly title?: string;
}

/** What comes next, and how what is switched off moves it. */
export function NextTokens({ whole, shown, sampling, onAppend, title }: Props) {
  const bars = useMemo(() => barsOf(whole, shown, sampling), [whole, shown, sampling]);
  const isMoved = whole !== shown;
  const first = bars.reduce((best, bar) => (bar.before > best.before ? bar : best), bars[0] as Bar);
  return (
    <section class="play-next" aria-label="Next token" data-part="next">
      <h2>{title ?? "Next token"}</h2>
      {isMoved && first && <Moved bar={first} />}
      <ol class="play-bars">
        {bars.map((bar) => (
          <BarRow key={bar.id} {...{ bar, isMoved, onAppend }} />
        ))}
      </ol>
      {sampling !== PLAIN && bars.some((bar) => !bar.isKept) && (
        <p class="soft play-small">Pale tokens cannot be drawn at this top-k and top-p.</p>
      )}
    </section>
  );
}

/** "Paris 0.77 → 0.31" */
function Moved({ bar }: { bar: Bar }) {
  return (
    <p class="play-moved" role="status" data-part="moved">
      <b>{tokenText(bar.text)}</b> <span class="figure">{bar.before.toFixed(2)}</span>
      <span aria-hidden="true"> → </span>
      <span class="unseen"> becomes </span>
      <span class="figure">{bar.after.toFixed(2)}</span>
    </p>
  );
}

interface RowProps {
  readonly bar: Bar;
  readonly isMoved: boolean;
  readonly onAppend: ((id: number) => void) | undefined;
}

function BarRow({ bar, isMoved, onAppend }: RowProps) {
  const { id, text, before, after, isKept } = bar;
  const words = isMoved ? `${before.toFixed(2)} → ${after.toFixed(2)}` : after.toFixed(2);
  return (
    <li class={isKept ? "" : "is-pale"}>
      <button
        type="button"
        class="play-bar"
        data-part="bar"
        data-token={id}
        data-value={String(after)}
        data-before={String(before)}
        title={onAppend && "Append this token"}
        disabled={!onAppend}
        onClick={() => onAppend?.(id)}
      >
        <span class="play-bar-word">{tokenText(text)}</span>
        <span class="play-bar-track" aria-hidden="true">
          {isMoved && <span class="before" style={{ width: `${100 * before}%` }} />}
          <span class="after" style={{ width: `${100 * after}%` }} />
        </span>
        <span class="figure play-bar-share">{words}</span>
      </button>
    </li>
  );
}
