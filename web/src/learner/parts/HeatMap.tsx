import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { topOf } from "../../colour/scale";
import { short } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { Legend } from "../../parts/Legend";
import { useWidth } from "../../parts/useWidth";
import { theme } from "../../shell/theme";
import { say } from "../language";
import { type Heat, heatInWords, heatScale, isHidden } from "./heat";
import { cellAt, cellBeside, type HeatCell, type HeatLayout, heatLayout } from "./heatLayout";
import { paintHeat } from "./heatPainting";

interface Props extends Heat {
  readonly title: string;
  /** Where several maps stand side by side. */
  readonly isSmall?: boolean;
}

// in rem; text is that of `.learn-heat`
const SIDE = 25;
const SMALL = 9;
const TEXT = 0.8;

/** All weights of a head as colours. A cell is read by pointing at it, or with the arrow keys. */
export function HeatMap({ title, isSmall = false, ...heat }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const read = useSignal<HeatCell | null>(null);
  const { weights, labels, causal, mark } = heat;
  const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
  const space = { side: (isSmall ? SMALL : SIDE) * rem, em: TEXT * rem };
  const wanted = heatLayout(labels, { ...space, room: Number.POSITIVE_INFINITY }).width;
  const box = useRef<HTMLDivElement>(null);
  const room = useWidth(box, wanted);
  const layout = useMemo(() => heatLayout(labels, { ...space, room }), [labels, room, rem]);
  useLayoutEffect(() => {
    if (canvas.current) paintHeat(canvas.current, heat, layout);
  }, [weights, labels, causal, mark, layout, theme.value]);
  const cell = within(read.value, labels.length);
  return (
    <div class="learn-heat" ref={box} style={{ width: `${wanted / rem}rem` }}>
      <div class="learn-heat-cells">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label={say("heat.aria", { title, rows: heatInWords(heat) })}
          data-part="heat-map"
          data-left={layout.left}
          data-top={layout.top}
          data-cell-width={layout.cellWidth}
          data-cell-height={layout.cellHeight}
          style={{ width: `${layout.width}px`, height: `${layout.height}px` }}
          onPointerDown={(event) => {
            read.value = cellAt(layout, event.offsetX, event.offsetY);
          }}
          onPointerMove={(event) => {
            read.value = cellAt(layout, event.offsetX, event.offsetY);
          }}
          onPointerLeave={(event) => {
            if (event.pointerType !== "touch") read.value = null; // a tapped cell stays
          }}
          onBlur={() => {
            read.value = null;
          }}
          onKeyDown={(event) => {
            const next = cellBeside(layout, cell ?? { row: mark, key: 0 }, event.key);
            if (!next) return;
            event.preventDefault(); // the room's own keys walk through the steps
            read.value = cell ? next : { row: mark, key: 0 };
          }}
        />
        {cell && <Ring layout={layout} cell={cell} />}
      </div>
      <Reading heat={heat} cell={cell} />
    </div>
  );
}

/** What the colours of a map of so many tokens stand for. */
export function HeatLegend({ count }: { count: number }) {
  const scale = heatScale(count);
  const ends = { low: short(scale.low), high: short(topOf(scale)) };
  const words = scale.log ? say("heat.legend_log", ends) : say("heat.legend", ends);
  return <Legend scale={scale} caption={words} />;
}

/** A cell of another sentence is none of this one. */
function within(cell: HeatCell | null, count: number): HeatCell | null {
  return cell && cell.row < count && cell.key < count ? cell : null;
}

function Ring({ layout, cell }: { layout: HeatLayout; cell: HeatCell }) {
  const place = {
    left: `${layout.left + cell.key * layout.cellWidth}px`,
    top: `${layout.top + cell.row * layout.cellHeight}px`,
    width: `${layout.cellWidth}px`,
    height: `${layout.cellHeight}px`,
  };
  return <i class="learn-heat-ring" style={place} aria-hidden="true" />;
}

function Reading({ heat, cell }: { heat: Heat; cell: HeatCell | null }) {
  return (
    <p class="learn-heat-reading" data-part="heat-reading" role="status">
      {cell && (
        <span>
          {heat.labels[cell.row]} → {heat.labels[cell.key]}{" "}
          {isHidden(heat, cell.row, cell.key) ? (
            say("cell.hidden")
          ) : (
            <Figure value={heat.weights[cell.row]?.[cell.key] ?? Number.NaN} class="weight" />
          )}
        </span>
      )}
      <span class={`soft ${cell ? "is-covered" : ""}`}>{say("heat.point")}</span>
    </p>
  );
}
