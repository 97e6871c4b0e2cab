import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useKeys } from "../shell/keys";
import type { About, Reading, Stack } from "./api";
import { counterpart } from "./linked";
import { ModelMap } from "./ModelMap";
import { Moments } from "./Moments";
import { NextTokens } from "./NextTokens";
import {
  type Chosen,
  choose,
  chosen,
  chosenOf,
  cuts,
  labelOf,
  mode,
  pinned,
  pinWord,
  toggleEdge,
  toggleHead,
} from "./place";
import { Reads } from "./Reads";
import { Scrubber } from "./Scrubber";
import { Strip } from "./Strip";
import type { Readings, Shown } from "./store";
import { Words } from "./Words";
import { append, goBack, step, useSampling, Writing } from "./Writing";
import { heaviest, striking } from "./weights";

const ARCS = 24;
const STUDY = 120; // milliseconds after a reading until its heads are studied, or studied on
const NONE: ReadonlySet<number> = new Set();

interface Props {
  readonly about: About;
  readonly readings: Readings;
  readonly second: Readings;
}

/** Words, arcs, heads and what comes next. */
export function Bench({ about, readings, second }: Props) {
  const shown = readings.shown.value as Shown;
  const whole = readings.whole.value ?? shown;
  const hovered = useSignal<number | null>(null);
  const otherHovered = useSignal<number | null>(null);
  const at = useHead(shown, about.start);
  const stack = stackOf(shown.reading, at.stack);
  const sampling = useSampling();
  const { texts } = shown.reading;
  const last = stack.rows - 1;
  const other = second.shown.value;
  const fromOther =
    other && otherHovered.value !== null
      ? counterpart(other.reading.texts, shown.reading.texts, otherHovered.value)
      : null;
  const row = Math.min(hovered.value ?? fromOther ?? pinned.value ?? last, last);
  useStudy(readings, whole, shown);
  useBenchKeys(readings, at, stack, row);
  const isSelf = stack.rows === stack.keys;
  const cut = useMemo(
    () => cutKeys(row, mode.value === "head" ? labelOf(at) : ""),
    [row, at, cuts.value, mode.value],
  );
  // a short prompt begins with its most striking head, which is known in a moment
  const isOpen = !chosen.value && !about.start && shown.weights.isShort(stack);
  const weights = isOpen ? undefined : shown.weights.row(stack, row, mode.value, at);
  const heavy = useMemo(() => (weights ? heaviest(weights, ARCS) : []), [weights]);
  const onKey = (key: number) => toggleEdge(row, key, mode.value === "head" ? labelOf(at) : "");
  return (
    <div class={other ? "play-bench has-two" : "play-bench"}>
      <div class="play-left">
        <Words
          name="Words of the prompt"
          texts={texts}
          row={row}
          pinned={pinned.value}
          heavy={isSelf ? heavy : []}
          cut={isSelf ? cut : NONE}
          fresh={isSelf ? shown.asked.more.length : 0}
          {...secondOf(shown.reading)}
          onHover={(word) => {
            hovered.value = word;
          }}
          onPin={pinWord}
          onKey={onKey}
        />
        {stack.frames !== null && <Moments frames={stack.frames} weights={weights} />}
        {other && (
          <Other
            shown={other}
            at={at}
            row={otherRow(shown, other, row, otherHovered.value)}
            onHover={(word) => {
              otherHovered.value = word;
            }}
          />
        )}
        <Scrubber stack={stack} stacks={shown.reading.stacks} at={at} />
        {isSelf && <Reads {...{ stack, texts, row, heavy, at }} />}
      </div>
      <div class="play-right">
        {shown.reading.similarity !== null && <Similarity value={shown.reading.similarity} />}
        {shown.logits && (
          <>
            <NextTokens {...{ whole, shown, sampling }} onAppend={append} />
            <Writing {...{ shown, sampling }} busy={readings.busy} positions={about.positions} />
          </>
        )}
        {other?.logits && (
          <div class="play-other-next">
            <NextTokens
              whole={second.whole.value ?? other}
              shown={other}
              sampling={sampling}
              title="Next token of the second prompt"
            />
          </div>
        )}
      </div>
      <section class="play-heads" aria-label="Heads that stand out">
        <h2>
          {about.kind === "text"
            ? "Heads that stand out here: switch one off"
            : "Heads that stand out here"}
        </h2>
        <Strip
          cards={readings.heads.value?.cards ?? null}
          block={shown.weights.block(stack.name)}
          stack={stack.name}
          at={at}
        />
      </section>
      <ModelMap
        heads={readings.heads.value}
        weights={shown.weights}
        reading={shown.reading}
        {...{ stack, at }}
      />
    </div>
  );
}

// ── which head, which words ──────────────────────────────────────────────────────────────────

/** The head that was chosen; until then the most striking one of a short prompt. */
function useHead(shown: Shown, start: string | null): Chosen {
  const first = shown.reading.stacks[0] as Stack;
  const named = chosen.value ?? chosenOf(start ?? undefined);
  const own = named ?? { stack: first.name, layer: 0, head: 0 };
  const stack = stackOf(shown.reading, own.stack);
  useEffect(() => {
    let isGone = false;
    shown.weights.whole(stack).then(
      (block) => {
        if (isGone || named) return;
        const middle = { layer: Math.floor(stack.layers / 2), head: 0 };
        choose({ stack: stack.name, ...(block && stack.rows > 3 ? striking(block) : middle) });
      },
      () => undefined, // the next question says what is wrong
    );
    return () => {
      isGone = true;
    };
  }, [shown, stack.name]);
  return {
    stack: stack.name,
    layer: Math.min(own.layer, stack.layers - 1),
    head: Math.min(own.head, stack.heads - 1),
  };
}

function stackOf(reading: Reading, name: string): Stack {
  const found = reading.stacks.find((one) => one.name === name);
  return found ?? (reading.stacks[0] as Stack);
}

function secondOf({ pair }: Reading): { second: number } | Record<string, never> {
  const first = pair.indexOf(1);
  return first < 0 ? {} : { second: first };
}

/** Keys that a row may not see in this head. */
function cutKeys(row: number, label: string): ReadonlySet<number> {
  const own = cuts.value.filter(([query, , head]) => query === row && (!head || head === label));
  return new Set(own.map((one) => one[1]));
}

// ── two prompts ──────────────────────────────────────────────────────────────────────────────

function otherRow(shown: Shown, other: Shown, row: number, hovered: number | null): number {
  if (hovered !== null) return hovered;
  const found = counterpart(shown.reading.texts, other.reading.texts, row);
  return found ?? other.reading.texts.length - 1;
}

interface OtherProps {
  readonly shown: Shown;
  readonly at: Chosen;
  readonly row: number;
  readonly onHover: (row: number | null) => void;
}

/** The second prompt: the same head, the same word. */
function Other({ shown, at, row, onHover }: OtherProps) {
  const stack = stackOf(shown.reading, at.stack);
  useEffect(() => {
    shown.weights.whole(stack).catch(() => undefined);
  }, [shown, stack.name]);
  const weights = shown.weights.row(stack, row, mode.value, at);
  const heavy = useMemo(() => (weights ? heaviest(weights, ARCS) : []), [weights]);
  return (
    <div class="play-second" data-part="second">
      <Words
        name="Words of the second prompt"
        texts={shown.reading.texts}
        row={row}
        pinned={null}
        heavy={heavy}
        cut={NONE}
        fresh={0}
        onHover={onHover}
        onPin={() => undefined}
        onKey={() => undefined}
      />
    </div>
  );
}

// ── other kinds of models ────────────────────────────────────────────────────────────────────

function Similarity({ value }: { value: number }) {
  return (
    <section class="play-next" aria-label="Similarity" data-part="similarity">
      <h2>How alike the sentences are</h2>
      <p class="play-moved">
        <span class="figure">{value.toFixed(3)}</span>
        <span class="soft"> cosine of their mean vectors, each sentence encoded alone</span>
      </p>
      <meter class="play-meter" min={0} max={1} value={Math.max(value, 0)} aria-label="cosine" />
    </section>
  );
}

// ── what follows a prompt; keys ──────────────────────────────────────────────────────────────

/** Heads are studied once the reader pauses, not at every token of a text that is being written. */
function useStudy(readings: Readings, whole: Shown, shown: Shown): void {
  useEffect(() => {
    const wait = whole.asked.more.length ? 10 * STUDY : STUDY;
    const timer = setTimeout(() => void readings.study(), wait);
    return () => clearTimeout(timer);
  }, [whole, shown]);
}

function useBenchKeys(readings: Readings, at: Chosen, stack: Stack, row: number): void {
  const sampling = useSampling();
  const move = (layer: number, head: number) =>
    choose({
      stack: at.stack,
      layer: Math.min(Math.max(at.layer + layer, 0), stack.layers - 1),
      head: Math.min(Math.max(at.head + head, 0), stack.heads - 1),
    });
  useKeys("Attention", [
    { key: "ArrowUp", does: "the layer above", run: () => move(1, 0) },
    { key: "ArrowDown", does: "the layer below", run: () => move(-1, 0) },
    { key: "[", does: "the head before", run: () => move(0, -1) },
    { key: "]", does: "the next head", run: () => move(0, 1) },
    { key: "ArrowLeft", does: "the word before", run: () => pinWord(Math.max(row - 1, 0)) },
    {
      key: "ArrowRight",
      does: "the next word",
      run: () => pinWord(Math.min(row + 1, stack.rows - 1)),
    },
    { key: "x", does: "switch this head off or on", run: () => toggleHead(labelOf(at)) },
    {
      key: "n",
      does: "append the next token",
      run: () => {
        const shown = readings.shown.peek();
        if (shown) step(shown, sampling);
      },
    },
    { key: "Backspace", does: "take the last token back", run: goBack },
  ]);
}
