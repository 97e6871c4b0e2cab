import { useMemo } from "preact/hooks";
import type { Heads, Reading, Stack } from "./api";
import { HABITS, type Habit, habitsOf } from "./habits";
import { type Chosen, choose, labelOf, mode, off } from "./place";
import type { Weights } from "./weights";

const CELL = 16;
const GAP = 2;

/** Where the prompt is too long for all weights, a head is coloured by the label it was given. */
const LABELLED: Readonly<Record<string, Habit>> = {
  induction: "after",
  "prefix-matching": "after",
  "duplicate-token": "same",
  previous: "before",
  self: "itself",
  sink: "rest",
};

interface Look {
  readonly habit: Habit;
  readonly share: number;
  readonly strength: number;
}

interface Props {
  readonly heads: Heads | null;
  readonly weights: Weights;
  readonly reading: Reading;
  readonly stack: Stack;
  readonly at: Chosen;
}

/** Every head of the model: layers across, heads down, coloured by what it does on this prompt. */
export function ModelMap({ heads, weights, reading, stack, at }: Props) {
  weights.arrived.value; // drawn again when the weights are here
  const block = weights.block(stack.name);
  const looks = useMemo((): (Look | undefined)[] => {
    if (block && stack.rows === stack.keys) {
      return habitsOf(block, reading.ids).map(({ habit, share, awake }) => ({
        ...{ habit, share },
        strength: habit === "rest" ? 1 : 0.3 + 0.7 * Math.sqrt(awake),
      }));
    }
    if (stack.frames !== null) return []; // moments of a sound are no words
    const found: (Look | undefined)[] = [];
    for (const one of heads?.map ?? []) {
      if (one.stack !== stack.name) continue;
      const habit = LABELLED[one.pattern] ?? "elsewhere";
      const share = one.score;
      found[one.layer * stack.heads + one.head] = { habit, share, strength: 0.4 + 0.6 * share };
    }
    return found;
  }, [block, heads, reading, stack]);
  return (
    <section class="play-map" aria-label="Model map" data-part="map">
      <h2>The whole model</h2>
      <p class="soft play-small">
        {stack.layers} layers, left to right, × {stack.heads} heads.
        {stack.frames === null &&
          " Colour: where most of a head's weight goes on this prompt, the first word left out."}
      </p>
      <Cells {...{ looks, stack, at }} />
      <ul class="play-legend">
        {HABITS.filter(([habit]) => looks.some((one) => one?.habit === habit)).map(
          ([habit, words]) => (
            <li key={habit}>
              <span class={`dot hue-${habit}`} aria-hidden="true" />
              {words}
            </li>
          ),
        )}
      </ul>
    </section>
  );
}

interface CellsProps {
  readonly looks: readonly (Look | undefined)[];
  readonly stack: Stack;
  readonly at: Chosen;
}

const MOVES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

function Cells({ looks, stack, at }: CellsProps) {
  const width = stack.layers * (CELL + GAP);
  const height = stack.heads * (CELL + GAP);
  const within = (value: number, count: number) => Math.min(Math.max(value, 0), count - 1);
  const own = looks[at.layer * stack.heads + at.head];
  const words = HABITS.find(([habit]) => habit === own?.habit)?.[1] ?? "not known";
  const cells = useMemo(
    () =>
      Array.from({ length: stack.layers * stack.heads }, (_, n) => {
        const layer = Math.floor(n / stack.heads);
        const head = n % stack.heads;
        return <Cell key={n} {...{ layer, head, stack }} look={looks[n]} />;
      }),
    [looks, stack, off.value],
  );
  return (
    <div
      class="scroll play-cells"
      role="application"
      aria-label={`Heads; arrow keys choose one. ${labelOf(at)}: ${words}`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys choose a head here
      tabIndex={0}
      data-part="cells"
      onKeyDown={(event) => {
        const by = MOVES[event.key];
        if (!by) return;
        event.preventDefault();
        event.stopPropagation();
        const layer = within(at.layer + by[0], stack.layers);
        choose({ stack: stack.name, layer, head: within(at.head + by[1], stack.heads) });
      }}
      onClick={(event) => {
        const [layer, head] = (event.target as Element).getAttribute("data-at")?.split("/") ?? [];
        if (layer === undefined) return;
        choose({ stack: stack.name, layer: Number(layer), head: Number(head) });
      }}
    >
      <svg
        viewBox={`0 0 ${width} ${height}`}
        style={{ width: `${1.6 * width}px` }}
        aria-hidden="true"
      >
        {cells}
        {mode.value !== "rollout" && (
          <rect
            class="chosen"
            x={at.layer * (CELL + GAP)}
            y={mode.value === "layer" ? 0 : at.head * (CELL + GAP)}
            width={CELL}
            height={mode.value === "layer" ? height - GAP : CELL}
            rx={3}
          />
        )}
      </svg>
    </div>
  );
}

interface CellProps {
  readonly layer: number;
  readonly head: number;
  readonly stack: Stack;
  readonly look: Look | undefined;
}

function Cell({ layer, head, stack, look }: CellProps) {
  const label = labelOf({ stack: stack.name, layer, head });
  const isOff = off.value.includes(label);
  const x = layer * (CELL + GAP);
  const y = head * (CELL + GAP);
  const words = HABITS.find(([habit]) => habit === look?.habit)?.[1];
  return (
    <>
      <rect
        class={`cell hue-${look?.habit ?? "none"}`}
        data-at={`${layer}/${head}`}
        data-habit={look?.habit}
        fill-opacity={isOff ? 0.15 : (look?.strength ?? 0.4)}
        {...{ x, y }}
        width={CELL}
        height={CELL}
        rx={3}
      >
        <title>{words ? `${label}: ${words} (${look?.share.toFixed(2)})` : label}</title>
      </rect>
      {isOff && <path class="off" d={`M ${x + 3} ${y + 3} l ${CELL - 6} ${CELL - 6}`} />}
    </>
  );
}
