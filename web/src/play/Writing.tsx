import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { amend, place } from "../shell/address";
import { setTokens, tokensBehind } from "./place";
import { candidates, drawn, PLAIN, type Sampling } from "./sampling";
import type { Shown } from "./store";

const MOST = 2048; // tokens, where the model has no limit of its own
const PAUSE = 250; // milliseconds between two tokens

function number(text: string | undefined, least: number, most: number, without: number): number {
  const value = Number(text);
  return text && Number.isFinite(value) && value >= least && value <= most ? value : without;
}

/** As the address says. */
export function samplingOf({ temp, k, n }: Readonly<Record<string, string>>): Sampling {
  if (!temp && !k && !n) return PLAIN;
  return {
    temperature: number(temp, 0, 2, 1),
    topK: Math.round(number(k, 0, 1000, 0)),
    topP: number(n, 0.05, 1, 1),
  };
}

export function useSampling(): Sampling {
  const { temp, k, n } = place.value;
  return useMemo(
    () =>
      samplingOf(
        Object.fromEntries(Object.entries({ temp, k, n }).filter((p) => p[1])) as Record<
          string,
          string
        >,
      ),
    [temp, k, n],
  );
}

export function append(id: number): void {
  setTokens([...tokensBehind(), id]);
}

export function goBack(): void {
  setTokens(tokensBehind().slice(0, -1));
}

export function step(shown: Shown, sampling: Sampling): void {
  if (!shown.logits) return;
  // greedy where nothing is set: the same prompt gives the same words
  const how = sampling === PLAIN ? { ...PLAIN, temperature: 0 } : sampling;
  append(drawn(candidates(shown.logits, how), Math.random()));
}

interface Props {
  readonly shown: Shown;
  readonly sampling: Sampling;
  readonly busy: Signal<boolean>;
  /** Tokens that the model takes at most. */
  readonly positions: number | null;
}

/** Step, play, pause, back; and how tokens are drawn. */
export function Writing({ shown, sampling, busy, positions }: Props) {
  const isBusy = busy.value;
  const isPlaying = useSignal(false);
  const behind = shown.asked.more.length;
  const isFull = shown.reading.ids.length >= (positions ?? MOST);
  useEffect(() => {
    if (!isPlaying.value || isBusy) return;
    if (isFull) {
      isPlaying.value = false;
      return;
    }
    const timer = setTimeout(() => step(shown, sampling), PAUSE);
    return () => clearTimeout(timer);
  }, [isPlaying.value, isBusy, shown, sampling]);
  return (
    <div class="play-writing" data-part="writing">
      <div class="play-buttons">
        <button type="button" data-part="step" onClick={() => step(shown, sampling)}>
          Step
        </button>
        <button
          type="button"
          data-part="play"
          aria-pressed={isPlaying.value}
          onClick={() => {
            isPlaying.value = !isPlaying.value;
          }}
        >
          {isPlaying.value ? "Pause" : "Play"}
        </button>
        <button type="button" data-part="back" disabled={!behind} onClick={goBack}>
          Back
        </button>
      </div>
      <details class="play-sampling">
        <summary>
          {sampling === PLAIN ? "Always the likeliest" : "Drawn by chance"}
          <span class="soft"> · temperature, top-k, top-p</span>
        </summary>
        <Dial
          name="Temperature"
          word="temp"
          least={0}
          most={2}
          by={0.05}
          value={sampling.temperature}
          plain={1}
        />
        <Dial
          name="Top-k (0: all)"
          word="k"
          least={0}
          most={100}
          by={1}
          value={sampling.topK}
          plain={0}
        />
        <Dial
          name="Top-p"
          word="n"
          least={0.05}
          most={1}
          by={0.05}
          value={sampling.topP}
          plain={1}
        />
      </details>
    </div>
  );
}

interface DialProps {
  readonly name: string;
  readonly word: string;
  readonly least: number;
  readonly most: number;
  readonly by: number;
  readonly value: number;
  readonly plain: number;
}

function Dial({ name, word, least, most, by, value, plain }: DialProps) {
  return (
    <label class="play-slider">
      <span>
        {name} <b class="figure">{value}</b>
      </span>
      <input
        type="range"
        min={least}
        max={most}
        step={by}
        value={value}
        data-part={`dial-${word}`}
        onInput={(event) => {
          const next = Number(event.currentTarget.value);
          amend({ [word]: next === plain && word !== "temp" ? undefined : String(next) });
        }}
      />
    </label>
  );
}
