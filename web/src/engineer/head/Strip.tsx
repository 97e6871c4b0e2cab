import { type Signal, useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { short } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import type { Track } from "../../source/answers";
import { Term } from "../Glossary";
import { type Side, spanOf } from "./Axis";
import type { MapTools } from "./mapTools";
import { type Brush, type Painting, usePainting } from "./painting";
import { styled } from "./styled";
import { heightOf, heights, isSpiky, readingAt, readingOf } from "./trackMaths";

interface Props {
  readonly tools: MapTools;
  readonly track: Track;
  readonly side: Side;
  readonly name: "received" | "entropy";
}

/** A curve along one axis of the map, which moves with it: mean dark, largest light. */
export function Strip({ tools, track, side, name }: Props) {
  const log = useSignal(useMemo(() => name === "received" && isSpiky(track), [track]));
  const at = useSignal<number | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const painting = useMemo(() => stripPainting(tools, track, side, log), [tools, track]);
  usePainting(canvas, painting);
  const point = (event: PointerEvent) => {
    const span = spanOf(tools, side);
    at.value = Math.floor(span.origin + (side === "keys" ? event.offsetX : event.offsetY) / span.z);
  };
  return (
    <>
      <StripWords tools={tools} track={track} side={side} name={name} log={log} at={at} />
      <canvas
        ref={canvas}
        class={`head-strip ${side}`}
        data-part={`track-${name}`}
        role="img"
        aria-label={track.words}
        onPointerMove={point}
        onPointerLeave={() => (at.value = null)}
      />
      {side === "queries" && <StripValue {...{ tools, track, side, name, at }} />}
    </>
  );
}

type WordsProps = Props & { readonly log: Signal<boolean>; readonly at: Signal<number | null> };

const SHORT_WORDS = { received: "attention received", entropy: "entropy" } as const;

function StripWords({ tools, track, side, name, log, at }: WordsProps) {
  const scale = heightsOf(tools, track, log.value, side);
  return (
    <div class={`head-strip-words ${side}`} title={`${track.words}; dark: mean, light: largest`}>
      <Term name={SHORT_WORDS[name]} />
      <button
        type="button"
        class="quiet"
        data-part={`track-${name}-scale`}
        title="log or linear"
        onClick={() => (log.value = !log.value)}
      >
        <span>{log.value ? "log" : "linear"}</span>{" "}
        <span>
          {short(scale.low)}–{short(scale.high)}
        </span>
      </button>
      {side === "keys" && <StripValue {...{ tools, track, side, name, at }} />}
    </div>
  );
}

type ValueProps = Props & { readonly at: Signal<number | null> };

/** The curve's number where the reader points. It stands where it pushes nothing: a map that moves
 * under the pointer cannot be read. */
function StripValue({ tools, track, side, name, at }: ValueProps) {
  const looked = tools.state.looked.value;
  const token = at.value ?? (looked && (side === "keys" ? looked.key : looked.row));
  const reading = token === null ? null : readingAt(track, token);
  if (!reading) return null;
  return (
    <span
      class={`head-strip-value ${side} ${side === "keys" ? "k" : "q"}`}
      data-part={`track-${name}-value`}
    >
      {side === "keys" ? "key" : "row"} {tokensIn(reading.tokens)}{" "}
      <Figure value={reading.mean} places={3} />
      {reading.largest !== reading.mean && (
        <>
          {" "}
          ≤ <Figure value={reading.largest} places={3} />
        </>
      )}
    </span>
  );
}

/** "611", or "608–611" where a point is about several tokens. */
export function tokensIn([first, stop]: readonly [number, number]): string {
  return stop - first <= 1 ? String(first) : `${first}–${stop - 1}`;
}

function heightsOf(tools: MapTools, track: Track, log: boolean, side: Side) {
  const covered = tools.state.withSinks.value || side === "queries" ? [] : tools.state.sinks;
  const skipped = new Set(covered);
  return heights(track, log, (token) => !skipped.has(token));
}

function stripPainting(tools: MapTools, track: Track, side: Side, log: Signal<boolean>): Painting {
  const { state } = tools;
  return {
    watch: () => [state.view.value, state.looked.value, log.value, state.withSinks.value],
    paint: (brush) => {
      if (state.size.peek().width > 0) paintStrip(brush, tools, track, side, log.peek());
    },
  };
}

function paintStrip(
  { pen, size }: Brush,
  tools: MapTools,
  track: Track,
  side: Side,
  log: boolean,
): void {
  const span = spanOf(tools, side);
  const scale = heightsOf(tools, track, log, side);
  const deep = side === "keys" ? size.height : size.width;
  const role = styled(side === "keys" ? "--k" : "--q");
  // keys: bars rise from the map's upper edge; queries: they grow to the right of it
  const bar = (at: number, long: number, thick: number) =>
    side === "keys"
      ? pen.fillRect(at, deep - long, 1, thick)
      : pen.fillRect(long - thick, at, thick, 1);
  for (let px = 0; px < span.length; px += 1) {
    const start = span.origin + px / span.z;
    if (start >= span.total) break;
    const reading = readingOf(track, start, start + 1 / span.z);
    if (!reading) continue;
    const [mean, top] = [reading.mean, reading.largest].map(
      (value) => deep * heightOf(value, scale),
    );
    pen.fillStyle = role;
    pen.globalAlpha = 0.4;
    bar(px, Math.max(top ?? 0, 1), Math.max(top ?? 0, 1));
    pen.globalAlpha = 0.7;
    bar(px, mean ?? 0, mean ?? 0);
  }
  pen.globalAlpha = 1;
  paintLooked(pen, tools, side, deep);
}

function paintLooked(
  pen: CanvasRenderingContext2D,
  tools: MapTools,
  side: Side,
  deep: number,
): void {
  const looked = tools.state.looked.peek();
  if (!looked) return;
  const span = spanOf(tools, side);
  const at = ((side === "keys" ? looked.key : looked.row) + 0.5 - span.origin) * span.z;
  pen.fillStyle = styled("--accent");
  pen.globalAlpha = 0.6;
  if (side === "keys") pen.fillRect(at, 0, 1, deep);
  else pen.fillRect(0, at, deep, 1);
  pen.globalAlpha = 1;
}
