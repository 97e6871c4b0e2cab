import { useSignalEffect } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { valueOfCode } from "../../colour/scale";
import { count } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import type { Scale } from "../../source/answers";
import { isBroken } from "../../source/binary";
import type { ExactCell } from "./cellBook";
import type { MapTools } from "./mapTools";
import { tokensIn } from "./Strip";
import { shortened, spelledIfKnown } from "./spelling";
import { TILE } from "./tiling";
import type { Cell } from "./view";
import { Weight } from "./Weight";

const MOST_LETTERS = 60; // of a token
const PATIENCE = 60; // ms on a cell, before it is asked for

/** What is under the pointer, or under the cursor: the exact weight. */
export function Readout({ tools }: { tools: MapTools }) {
  const { state, cells } = tools;
  useSignalEffect(() => {
    const cell = state.looked.value;
    if (!cell || !state.facts.exact) return;
    const timer = setTimeout(() => cells.ask(cell), PATIENCE);
    return () => clearTimeout(timer);
  });
  cells.news.value;
  const cell = state.looked.value;
  return (
    <section class="head-readout" data-part="readout" aria-live="polite">
      {cell ? (
        <dl>
          <TokenLine tools={tools} cell={cell} side="row" />
          <TokenLine tools={tools} cell={cell} side="key" />
          {state.facts.exact && <ExactLines tools={tools} cell={cell} exact={cells.get(cell)} />}
          <PixelLine tools={tools} cell={cell} />
        </dl>
      ) : (
        <p class="soft">Point at a cell, or move one with Shift and the arrow keys.</p>
      )}
    </section>
  );
}

function TokenLine({ tools, cell, side }: { tools: MapTools; cell: Cell; side: "row" | "key" }) {
  const book = side === "row" ? tools.queryTokens : tools.keyTokens;
  book.news.value;
  const n = cell[side];
  const text = book.text(n);
  return (
    <div data-part={`readout-${side}`} data-value={String(n)}>
      <dt class={side === "row" ? "q" : "k"}>{side === "row" ? "row" : "key"}</dt>
      <dd>
        <span class="figure">{n}</span> <b>{shortened(spelledIfKnown(text), MOST_LETTERS)}</b>
      </dd>
    </div>
  );
}

interface ExactProps {
  readonly tools: MapTools;
  readonly cell: Cell;
  readonly exact: ExactCell | undefined;
}

function ExactLines({ tools, cell, exact }: ExactProps) {
  const [first, stop] = tools.state.facts.recorded;
  if (cell.row < first || cell.row >= stop) return <Line term="weight">row was not recorded</Line>;
  if (!exact) return <Line term="weight">{tools.cells.failure.value?.message ?? "…"}</Line>;
  const { weight, visible } = exact;
  if (Number.isNaN(weight)) {
    return (
      <Line term="weight">
        <span data-part="readout-weight" data-value="NaN">
          hidden
        </span>
        <span class="soft">: the row may not look there</span>
      </Line>
    );
  }
  if (isBroken(weight)) {
    return (
      <Line term="weight">
        <span data-part="readout-weight" data-value="NaN">
          no number (NaN)
        </span>
        <span class="soft">: q or k held none here</span>
      </Line>
    );
  }
  return (
    <>
      <Line term="weight">
        <span data-part="readout-weight" data-value={String(weight)}>
          <Weight value={weight} />
        </span>
      </Line>
      <Line term="× even share">
        <span data-part="readout-times" data-value={String(weight * visible)}>
          <Figure value={weight * visible} places={3} />
        </span>
      </Line>
      <Line term="sees">
        <span data-part="readout-visible" data-value={String(visible)}>
          {count(visible)} keys
        </span>
      </Line>
    </>
  );
}

function Line({ term, children }: { term: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** The ends of the scale stand for all that is beyond them. */
function bound(code: number, scale: Scale): string {
  return code === scale.last ? "≥" : code === scale.first ? "≤" : "≈";
}

/** The pixel of the map in which the cell lies, where that is more than the cell. */
function PixelLine({ tools, cell }: { tools: MapTools; cell: Cell }) {
  const { state, tiles } = tools;
  tiles.news.value;
  const level = state.level.value;
  if (level === null || level === 1) return null;
  const [down, across] = [Math.floor(cell.row / level), Math.floor(cell.key / level)];
  const [y, x] = [Math.floor(down / TILE), Math.floor(across / TILE)];
  const tile = tiles.get({ level, y, x, how: state.how.value });
  const code = tile?.codes[(down % TILE) * TILE + (across % TILE)];
  if (code === undefined) return null;
  const value = valueOfCode(code, state.facts.scale);
  const span = (n: number, total: number) =>
    tokensIn([n * level, Math.min((n + 1) * level, total)]);
  return (
    <Line term="its pixel">
      <span data-part="readout-pixel" data-value={String(value)}>
        {Number.isNaN(value) ? (
          "hidden"
        ) : (
          <>
            {bound(code, state.facts.scale)} <Figure value={value} places={2} /> × even share
          </>
        )}
      </span>{" "}
      <span class="soft">
        ({state.how.value} of rows {span(down, state.shape.queries)}, keys{" "}
        {span(across, state.shape.keys)})
      </span>
    </Line>
  );
}
