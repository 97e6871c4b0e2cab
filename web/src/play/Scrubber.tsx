import type { Stack } from "./api";
import { type Chosen, choose, type Mode, mode, setMode } from "./place";

const MODES: readonly (readonly [Mode, string, string])[] = [
  ["head", "Head", "one head"],
  ["layer", "Layer mean", "the mean of a layer's heads"],
  ["rollout", "Rollout", "through all layers down to the words themselves"],
];

interface Props {
  readonly stack: Stack;
  readonly stacks: readonly Stack[];
  readonly at: Chosen;
}

/** Which attention is drawn: one head, a layer's mean, or the rollout. */
export function Scrubber({ stack, stacks, at }: Props) {
  const how = mode.value;
  return (
    <div class="play-scrubber" data-part="scrubber">
      {stacks.length > 1 && <Stacks {...{ stacks, at }} />}
      <fieldset class="play-modes">
        <legend class="unseen">What the arcs show</legend>
        {MODES.filter((one) => one[0] !== "rollout" || stack.rows === stack.keys).map(
          ([name, title, does]) => (
            <button
              key={name}
              type="button"
              title={does}
              aria-pressed={how === name}
              data-part={`mode-${name}`}
              onClick={() => setMode(name)}
            >
              {title}
            </button>
          ),
        )}
      </fieldset>
      {how !== "rollout" && (
        <Slider
          name="Layer"
          value={at.layer}
          most={stack.layers - 1}
          onValue={(layer) => choose({ ...at, layer }, how)}
        />
      )}
      {how === "head" && (
        <Slider
          name="Head"
          value={at.head}
          most={stack.heads - 1}
          onValue={(head) => choose({ ...at, head }, how)}
        />
      )}
    </div>
  );
}

interface SliderProps {
  readonly name: string;
  readonly value: number;
  readonly most: number;
  readonly onValue: (value: number) => void;
}

function Slider({ name, value, most, onValue }: SliderProps) {
  return (
    <label class="play-slider">
      <span>
        {name} <b class="figure">{value}</b>
      </span>
      <input
        type="range"
        min={0}
        max={most}
        step={1}
        value={value}
        data-part={`${name.toLowerCase()}-slider`}
        onInput={(event) => onValue(Number(event.currentTarget.value))}
      />
    </label>
  );
}

function Stacks({ stacks, at }: { stacks: readonly Stack[]; at: Chosen }) {
  return (
    <fieldset class="play-modes">
      <legend class="unseen">Which attention</legend>
      {stacks.map(({ name }) => (
        <button
          key={name}
          type="button"
          aria-pressed={name === at.stack}
          onClick={() => choose({ stack: name, layer: 0, head: 0 })}
        >
          {name || "self"}
        </button>
      ))}
    </fieldset>
  );
}
