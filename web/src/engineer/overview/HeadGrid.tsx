import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useWidth, useWindowHeight } from "../../parts/useWidth";
import { go, linkTo, type Place, place } from "../../shell/address";
import { useKeys } from "../../shell/keys";
import { theme } from "../../shell/theme";
import {
  type Cell,
  cellAt,
  cornerOf,
  type GridLayout,
  layoutOf,
  moved as stepped,
} from "./gridLayout";
import { type Exactness, inksOf, type Paint, paintGrid } from "./gridPainting";

interface Props {
  /** What the grid is of, for those who do not see it. */
  readonly name: string;
  readonly layers: number;
  readonly heads: number;
  readonly paint: Paint | null;
  readonly exactness: readonly Exactness[] | null;
  /** The cell that is meant before anybody points; the first where none is given. */
  readonly start?: Cell | undefined;
  /** Whether a filter leaves the head out. */
  readonly isFaint?: (cell: Cell) => boolean;
  /** Changes where the filter does. */
  readonly filter?: string | null;
  /** The label of a head that was recorded; undefined where it was not. */
  readonly labelOf: (cell: Cell) => string | undefined;
  readonly placeOf: (label: string) => Place;
  /** What is said about a cell, beside it. */
  readonly tip: (cell: Cell) => ComponentChildren;
  /** The same in one line. */
  readonly spoken: (cell: Cell) => string;
  /** Whether the arrow keys of the page move in this grid. */
  readonly hasKeys: boolean;
  /** Beside the cells, layer by layer. */
  readonly beside?: (layout: GridLayout, width: number) => ComponentChildren;
  /** More about a cell than a tip can hold, where there is room for it. */
  readonly panel?: (cell: Cell) => ComponentChildren;
  readonly onDrawn?: () => void;
  readonly onActive?: () => void;
}

const PANEL_WIDTH = 270;
const GAP = 12;
const NARROW = 480;
const LARGE = 36; // pixels of a cell that reads well

/** The room of what stands beside the cells, the gap included; 0 where the cells need it all. */
function stripWidth(room: number, layers: number, heads: number): number {
  const wanted = GAP + (room < NARROW ? 76 : 104);
  return layoutOf(room - wanted, layers, heads, innerHeight).width <= room - wanted ? wanted : 0;
}

/** With room for the panel beside it, where cells stay large. */
function roomyLayout(
  width: number,
  layers: number,
  heads: number,
  tall: number,
  isPanelled: boolean,
): GridLayout {
  const beside = layoutOf(width - PANEL_WIDTH, layers, heads, tall);
  return isPanelled && beside.step >= LARGE ? beside : layoutOf(width, layers, heads, tall);
}

/** Layers down, heads across; one canvas, and one link that lies over the cell that is meant. */
export function HeadGrid(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const link = useRef<HTMLAnchorElement>(null);
  const room = useWidth(box);
  const { layers, heads } = props;
  const strip = props.beside ? stripWidth(room, layers, heads) : 0;
  const width = Math.max(room - strip, 0);
  const tall = useWindowHeight();
  const layout = useMemo(
    () => roomyLayout(width, layers, heads, tall, props.panel !== undefined),
    [width, layers, heads, tall, props.panel !== undefined],
  );
  const hasPanel = props.panel !== undefined && width - layout.width >= PANEL_WIDTH;
  const [moved, setCell] = useState<Cell | null>(null); // until somebody points, the start is meant
  const cell = moved ?? props.start ?? { layer: 0, head: 0 };
  const [isPointed, setPointed] = useState(false);
  const isShown = { layer: Math.min(cell.layer, layers - 1), head: Math.min(cell.head, heads - 1) };
  usePainting(canvas, layout, width, props);
  useArrows(props, layout, isShown, (next) => {
    setCell(next);
    setPointed(true);
    link.current?.focus({ preventScroll: true });
    link.current?.scrollIntoView({ block: "nearest" });
  });
  const point = (event: PointerEvent) => {
    const found = cellAt(layout, ...within(event, canvas.current));
    setPointed(found !== null);
    if (!found) return;
    setCell(found);
    if (!props.hasKeys) props.onActive?.();
  };
  return (
    <div class={layout.width > room ? "grid-row scroll" : "grid-row"} ref={box}>
      <div class="grid-box">
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: the link over the cell answers to keys */}
        <nav
          class="grid-field"
          aria-label={`Heads${props.name && ` of ${props.name}`}, layers down`}
          data-part="head-grid"
          data-name={props.name}
          data-step={layout.step}
          data-left={layout.left}
          data-top={layout.top}
          onPointerMove={point}
          onPointerLeave={() => setPointed(false)}
          onClick={(event) =>
            openAt(event, props, cellAt(layout, ...within(event, canvas.current)))
          }
        >
          <canvas
            ref={canvas}
            style={{ width: `${layout.width}px`, height: `${layout.height}px` }}
          />
          <CellLink {...props} cell={isShown} layout={layout} link={link} onFocus={setPointed} />
          {isPointed && !hasPanel && <Tip {...props} cell={isShown} layout={layout} room={width} />}
        </nav>
      </div>
      {strip > 0 && props.beside?.(layout, strip - GAP)}
      {hasPanel && props.panel?.(isShown)}
    </div>
  );
}

function within(event: MouseEvent, canvas: HTMLCanvasElement | null): [number, number] {
  const corner = canvas?.getBoundingClientRect();
  return [event.clientX - (corner?.left ?? 0), event.clientY - (corner?.top ?? 0)];
}

/** A tap on a cell over which the link does not lie yet. */
function openAt(event: MouseEvent, props: Props, cell: Cell | null): void {
  if (event.defaultPrevented || (event.target as Element).closest("a") || !cell) return;
  const label = props.labelOf(cell);
  if (label) go(props.placeOf(label));
}

function usePainting(
  canvas: { readonly current: HTMLCanvasElement | null },
  layout: GridLayout,
  width: number,
  { paint, exactness, labelOf, isFaint, filter, onDrawn }: Props,
): void {
  useLayoutEffect(() => {
    if (!canvas.current || !paint || width === 0) return;
    const isRecorded = (cell: Cell) => labelOf(cell) !== undefined;
    const picture = { layout, paint, exactness, isRecorded, isFaint: isFaint ?? (() => false) };
    paintGrid(canvas.current, picture, inksOf(canvas.current), devicePixelRatio || 1);
    onDrawn?.();
  }, [layout, paint, exactness, theme.value, width, filter]);
}

function useArrows(props: Props, layout: GridLayout, cell: Cell, move: (cell: Cell) => void): void {
  const arrows = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"] as const;
  const words = ["head to the left", "head to the right", "layer above", "layer below"] as const;
  const bindings = arrows.map((key, n) => ({
    key,
    does: words[n] ?? "",
    run: () => move(stepped(layout, cell, key)),
  }));
  useKeys(`Grid${props.name ? ` of ${props.name}` : ""}`, props.hasKeys ? bindings : []);
}

interface AtCell extends Props {
  readonly cell: Cell;
  readonly layout: GridLayout;
}

interface LinkProps extends AtCell {
  readonly link: { current: HTMLAnchorElement | null };
  readonly onFocus: (is: boolean) => void;
}

/** A real link over the cell that is meant: it can be opened, copied and reached by Tab. */
function CellLink({ cell, layout, link, onFocus, ...props }: LinkProps) {
  const label = props.labelOf(cell);
  const { x, y } = cornerOf(layout, cell);
  const style = {
    left: `${x}px`,
    top: `${y}px`,
    width: `${layout.size}px`,
    height: `${layout.size}px`,
  };
  return (
    <a
      ref={link}
      class="grid-cell"
      data-part="grid-cell"
      data-head={label ?? ""}
      style={style}
      href={linkTo(label ? props.placeOf(label) : place.value)}
      aria-disabled={label === undefined}
      tabIndex={0}
      onFocus={() => {
        onFocus(true);
        if (!props.hasKeys) props.onActive?.();
      }}
      onBlur={() => onFocus(false)}
    >
      <span class="unseen">{props.spoken(cell)}</span>
    </a>
  );
}

const TIP_WIDTH = 240;

function Tip({ cell, layout, room, ...props }: AtCell & { readonly room: number }) {
  const { x, y } = cornerOf(layout, cell);
  const isRight = x + layout.step + TIP_WIDTH < Math.max(room, TIP_WIDTH + layout.step);
  const left = isRight ? x + layout.step + 6 : Math.max(x - TIP_WIDTH - 8, 0);
  const top = isRight || x > TIP_WIDTH + 8 ? y : y + layout.step + 6;
  return (
    <div
      class="grid-tip"
      data-part="grid-tip"
      role="status"
      style={{ left: `${left}px`, top: `${top}px` }}
    >
      {props.tip(cell)}
    </div>
  );
}
