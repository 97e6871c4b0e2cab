import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { place } from "../shell/address";
import { copier, habitsOf } from "./habits";
import { choose, labelOf, off, pinWord, submit, toggleHead } from "./place";
import type { Readings } from "./store";

/** Which of its five steps is shown; null where there is no tour. */
export const tourStep = signal<number | null>(null);

const PHRASE = "The silver otter sang to the moon. The lantern went out. The silver otter";
const COPIES = new Set(["prefix-matching", "induction"]);

interface Step {
  readonly text: string;
  readonly button: string;
  readonly run: (readings: Readings) => void;
}

/** The head that copies most: from the weights of a short prompt, from the labels of a long one. */
function copierOf(readings: Readings) {
  const shown = readings.whole.value;
  const stack = shown?.reading.stacks[0];
  const block = stack && shown?.weights.block(stack.name);
  if (block) {
    const found = copier(block, habitsOf(block, shown.reading.ids));
    return found && { ...found, stack: stack.name };
  }
  const named = readings.heads.value?.map.filter((one) => COPIES.has(one.pattern)) ?? [];
  const best = named.sort((a, b) => b.score - a.score)[0];
  return best ? { ...best, share: best.score } : null;
}

const STEPS: readonly Step[] = [
  {
    text: "Attention lets a word read earlier words. Start with a phrase that occurs twice: this one, or your own in the box above.",
    button: "Read it",
    run: () => {
      if (!place.peek().p) submit({ p: PHRASE });
    },
  },
  {
    text: "The bars show what the model expects next. Now see what the last word reads: the arcs go there, thicker where the weight is larger.",
    button: "Show the last word",
    run: () => pinWord(null),
  },
  {
    text: "Each cell of the map is one head. Some look at the word before, some at the same word, most rest on the first word. One kind looks at what came after the same word last time.",
    button: "Find it",
    run: (readings) => {
      const found = copierOf(readings);
      if (found) choose({ stack: found.stack, layer: found.layer, head: found.head });
    },
  },
  {
    text: "That is an induction head: on a repeated word it attends to whatever followed it before, and so it can copy. Switch it off and watch the bars.",
    button: "Switch it off",
    run: (readings) => {
      const found = copierOf(readings);
      if (found && !off.peek().includes(labelOf(found))) toggleHead(labelOf(found));
    },
  },
  {
    text: "Several heads share this work, so one alone may change little: switch off more of them in the strip below, or cut single edges with ✂.",
    button: "Done",
    run: () => undefined,
  },
];

/** Five clicks, which end at an induction head on the reader's own phrase. */
export function Tour({ readings }: { readings: Readings }) {
  const button = useRef<HTMLButtonElement>(null);
  const at = tourStep.value;
  useEffect(() => {
    button.current?.focus();
  }, [at]);
  const step = at === null ? undefined : STEPS[at];
  if (at === null || !step) return null;
  const shown = readings.whole.value;
  shown?.weights.arrived.value;
  const isHere = readings.heads.value !== null || shown?.weights.block("") !== null;
  const isWaiting = at === 2 && (!shown || !isHere);
  return (
    <aside class="play-tour" aria-label="Tour" data-part="tour-card">
      <p>
        <span class="figure soft">{`${at + 1}/${STEPS.length} `}</span>
        {step.text} {at === 3 && <Seen readings={readings} />}
      </p>
      <div class="play-buttons">
        <button
          type="button"
          ref={button}
          class="play-send"
          disabled={isWaiting}
          data-part="tour-next"
          onClick={() => {
            step.run(readings);
            tourStep.value = at + 1 < STEPS.length ? at + 1 : null;
          }}
        >
          {isWaiting ? "Studying the heads …" : step.button}
        </button>
        <button
          type="button"
          class="quiet"
          onClick={() => {
            tourStep.value = null;
          }}
        >
          End the tour
        </button>
      </div>
    </aside>
  );
}

/** What was found, or that this phrase shows none. */
function Seen({ readings }: { readings: Readings }) {
  const found = copierOf(readings);
  if (!found) {
    return <b>On this prompt no head does it: repeat a phrase of several words.</b>;
  }
  return (
    <b data-part="tour-found">
      {labelOf(found)}: {found.share.toFixed(2)} of its weight goes there.
    </b>
  );
}
