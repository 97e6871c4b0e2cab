import type { Signal } from "@preact/signals";
import { count, short } from "../../maths/format";
import { Legend } from "../../parts/Legend";
import type { Scale } from "../../source/answers";
import { flip, type Opened, switchHow } from "./mapKeys";
import { type MapState, QUICK_LEVEL } from "./mapState";
import type { MapTools } from "./mapTools";

/** Buttons for what the keys do. */
export function Controls({ state, opened }: { state: MapState; opened: Opened }) {
  const hasMax = state.facts.levels.max.length > 0;
  return (
    <div class="head-controls" role="toolbar" aria-label="Map">
      <Button label="+" title="Nearer (+)" run={() => state.zoom(2)} />
      <Button label="−" title="Farther (−)" run={() => state.zoom(0.5)} />
      <Button label="whole" title="All of the matrix (0)" run={() => state.showWhole()} />
      {hasMax && (
        <Button
          label={state.how.value === "mean" ? "mean" : "largest"}
          part="how"
          title="Mean or largest of a pixel's cells (m)"
          run={() => switchHow(state)}
        />
      )}
      <Button
        label={state.linear.value ? "linear" : "log"}
        part="ink"
        title="Log or linear colours (l)"
        run={() => flip(state.linear)}
      />
      <Button
        label="sinks"
        part="sinks"
        pressed={state.withSinks.value}
        title="Show the keys that get most of the attention (s)"
        run={() => flip(state.withSinks)}
      />
      {state.facts.exact && <ExactButtons state={state} opened={opened} />}
      <Button
        label="go to"
        part="go"
        title="Go to a row and key (g)"
        run={() => flip(opened.goTo)}
      />
    </div>
  );
}

function ExactButtons({ state, opened }: { state: MapState; opened: Opened }) {
  return (
    <>
      <Button
        label={state.raw.value ? "weight" : "× even share"}
        part="colour"
        title="Colour by × even share or by weight (u)"
        run={() => flip(state.raw)}
      />
      <Button
        label="exact"
        part="exact"
        pressed={opened.exact.value}
        title="Exact weights around the cell (e)"
        run={() => flip(opened.exact)}
      />
    </>
  );
}

interface ButtonProps {
  readonly label: string;
  readonly title: string;
  readonly run: () => void;
  readonly pressed?: boolean;
  readonly part?: string;
}

function Button({ label, title, run, pressed, part }: ButtonProps) {
  return (
    <button
      type="button"
      title={title}
      aria-label={`${label}: ${title}`}
      aria-pressed={pressed}
      data-part={part && `control-${part}`}
      onClick={run}
    >
      {label}
    </button>
  );
}

/** The colours, the pooling and the zoom, in words: printed always. */
export function MapLegend({ tools, scale }: { tools: MapTools; scale: Signal<Scale> }) {
  const { state, tiles } = tools;
  if (state.size.value.width === 0 || state.level.value === null) return null;
  const coming = tiles.waiting.value;
  return (
    <div class="head-legend" data-part="legend">
      <Legend scale={scale.value} words={scaleWords(state)} />
      <p class="soft" role="status">
        {state.raw.value && !state.isRaw.value && "Weights are coloured from 1 px per token on. "}
        {!state.withSinks.value && `Covered: ${coveredWords(state)}. `}
        {coming > 0 && `${count(coming)} ${coming === 1 ? "tile" : "tiles"} to come.`}
        {coming > 0 && <SlowWords state={state} />}
      </p>
    </div>
  );
}

/** Far away, what was not stored is computed from very many weights: why it takes long, and what
 * is seen meanwhile. */
function SlowWords({ state }: { state: MapState }) {
  const level = state.level.value ?? 1;
  if (!state.facts.exact || level <= QUICK_LEVEL) return null;
  const hasMean = state.overview.value !== null;
  const meanwhile = state.how.value === "max" ? "the mean" : "a coarser map";
  return (
    <span class="head-slow" data-part="slow">
      {" "}
      At {level} tokens a pixel they are computed from q and k, which can take minutes; nearer is
      faster. {hasMean && `Until then ${meanwhile} is shown.`}
    </span>
  );
}

/** "1 px = 4 × 4 tokens, mean of weights × visible keys" */
export function scaleWords(state: MapState): string {
  const { z } = state.view.value;
  const level = state.level.value ?? 1;
  const what = state.isRaw.value ? "single weights" : "weights × visible keys";
  if (level === 1) return `1 token = ${short(z)} px, ${what}`;
  const how = state.how.value === "mean" ? "mean" : "largest";
  return `1 pixel = ${level} × ${level} tokens, ${how} of ${what}`;
}

function coveredWords(state: MapState): string {
  const most = 6;
  const named = state.sinks.slice(0, most).join(", ");
  const more = state.sinks.length > most ? ` and ${state.sinks.length - most} more` : "";
  return `${state.sinks.length === 1 ? "key" : "keys"} ${named}${more}`;
}
