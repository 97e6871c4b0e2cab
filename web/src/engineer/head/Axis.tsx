import { useMemo, useRef } from "preact/hooks";
import { type AxisSpan, type Mark, TOKEN_ROOM, tickMarks, tokenMarks, tokensOn } from "./axis";
import type { MapTools } from "./mapTools";
import { type Brush, type Painting, usePainting } from "./painting";
import { styled } from "./styled";
import { originOf } from "./view";

export type Side = "queries" | "keys";

const SMALL = 11;
const TICK = 5;
const GLYPH = 6.7; // width of a letter of the axis' type
const PAD = 8;

interface Props {
  readonly tools: MapTools;
  readonly side: Side;
  /** A token was clicked that has a row. */
  readonly onToken: (row: number) => void;
}

/** The row of the token at a point of an axis; null where it has none. */
function rowAt(tools: MapTools, side: Side, event: MouseEvent): number | null {
  const { facts } = tools.state;
  const span = spanOf(tools, side);
  const pixels = side === "keys" ? event.offsetX : event.offsetY;
  const token = Math.floor(span.origin + pixels / span.z);
  const isQuery = side === "queries" || facts.kind === "self";
  return isQuery && token >= facts.recorded[0] && token < facts.recorded[1] ? token : null;
}

/** An axis of the map: tokens where there is room for their text, else numbers. */
export function Axis({ tools, side, onToken }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painting = useMemo(() => axisPainting(tools, side), [tools, side]);
  usePainting(canvas, painting);
  return (
    <canvas
      ref={canvas}
      class={`head-axis ${side}`}
      data-part={`axis-${side}`}
      role="img"
      aria-label={SIDE_WORDS[side]}
      title="A click opens the row of the token"
      onClick={(event) => {
        const row = rowAt(tools, side, event);
        if (row !== null) onToken(row);
      }}
    />
  );
}

/** The stretch of an axis that is on the screen. */
export function spanOf(tools: MapTools, side: Side): AxisSpan {
  const { state } = tools;
  const size = state.size.peek();
  const view = state.view.peek();
  const origin = originOf(view, size);
  return side === "keys"
    ? { origin: origin.x, z: view.z, length: size.width, total: state.shape.keys }
    : { origin: origin.y, z: view.z, length: size.height, total: state.shape.queries };
}

/** What stands along an axis now; `room` is how long a text may be, in CSS pixels. */
export function marksOf(tools: MapTools, side: Side, room: number): Mark[] {
  const span = spanOf(tools, side);
  if (span.z < TOKEN_ROOM) return tickMarks(span);
  const book = side === "keys" ? tools.keyTokens : tools.queryTokens;
  const [first, stop] = tokensOn(span);
  book.text(first);
  book.text(Math.max(stop - 1, first));
  return tokenMarks(span, (n) => book.text(n), Math.floor((room - PAD) / GLYPH));
}

export const SIDE_WORDS: Readonly<Record<Side, string>> = {
  queries: "query i (this token looks)",
  keys: "key j (at this token)",
};

function axisPainting(tools: MapTools, side: Side): Painting {
  const book = side === "keys" ? tools.keyTokens : tools.queryTokens;
  return {
    watch: () => [tools.state.view.value, tools.state.looked.value, book.news.value],
    paint: (brush) => {
      if (tools.state.size.peek().width === 0) return;
      const { pen } = brush;
      pen.font = `${SMALL}px ${styled("--mono")}`;
      pen.textBaseline = "middle";
      if (side === "keys") paintKeys(brush, tools);
      else paintQueries(brush, tools);
    },
  };
}

function roleInk(tools: MapTools, side: Side): (mark: Mark) => string {
  const looked = tools.state.looked.peek();
  const span = spanOf(tools, side);
  const n = looked && (side === "keys" ? looked.key : looked.row);
  const at = n === null ? Number.NaN : (n + 0.5 - span.origin) * span.z;
  const [role, soft] = [styled(side === "keys" ? "--k" : "--q"), styled("--soft")];
  return (mark) => (Math.abs(mark.at - at) < 0.5 ? role : soft);
}

function paintKeys(brush: Brush, tools: MapTools): void {
  const { pen, size } = brush;
  const isText = tools.state.view.peek().z >= TOKEN_ROOM;
  const ink = roleInk(tools, "keys");
  for (const mark of marksOf(tools, "keys", size.height)) {
    pen.fillStyle = ink(mark);
    if (isText) turned(pen, mark.text, mark.at, TICK, "right");
    else {
      pen.fillRect(Math.round(mark.at), 0, 1, TICK);
      pen.textAlign = mark.at < 12 ? "left" : mark.at > size.width - 24 ? "right" : "center";
      pen.fillText(mark.text, mark.at, TICK + SMALL);
    }
  }
  if (isText) return;
  pen.font = `12px ${styled("--text")}`;
  pen.fillStyle = styled("--k");
  pen.textAlign = "center";
  pen.fillText(SIDE_WORDS.keys, size.width / 2, TICK + 2.7 * SMALL);
}

function paintQueries(brush: Brush, tools: MapTools): void {
  const { pen, size } = brush;
  const isText = tools.state.view.peek().z >= TOKEN_ROOM;
  const ink = roleInk(tools, "queries");
  pen.textAlign = "right";
  for (const mark of marksOf(tools, "queries", size.width)) {
    pen.fillStyle = ink(mark);
    pen.fillText(mark.text, size.width - TICK - 2, Math.max(mark.at, SMALL / 2));
    if (!isText) pen.fillRect(size.width - TICK, Math.round(mark.at), TICK, 1);
  }
  if (isText || size.width < 64) return;
  pen.font = `12px ${styled("--text")}`;
  pen.fillStyle = styled("--q");
  turned(pen, SIDE_WORDS.queries, SMALL, size.height / 2, "center");
}

/** Text that is read upwards; `x`, `y` is where its end (right) or its middle stands. */
export function turned(
  pen: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  align: CanvasTextAlign,
): void {
  pen.save();
  pen.translate(x, y);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = align;
  pen.fillText(text, 0, 0);
  pen.restore();
}
