import { type Signal, useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { count, short } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import type { Track } from "../../source/answers";
import { roundStep } from "./axis";
import { type Brush, type Painting, usePainting } from "./painting";
import { tokensIn } from "./Strip";
import { styled } from "./styled";
import { heightOf, heights, isSpiky, type Reading, readingAt, readingOf } from "./trackMaths";

const FOOT = 18; // pixels for the numbers below

interface Choices {
  readonly log: Signal<boolean>;
  /** Near distances get as much room as far ones. */
  readonly near: Signal<boolean>;
  readonly at: Signal<number | null>;
}

/** How far back a head looks; it does not move with the map, for it has an axis of its own. */
export function DistanceChart({ track }: { track: Track }) {
  const choices: Choices = {
    log: useSignal(useMemo(() => isSpiky(track), [track])),
    near: useSignal(false),
    at: useSignal(null),
  };
  const canvas = useRef<HTMLCanvasElement>(null);
  const painting = useMemo(() => distancePainting(track, choices), [track]);
  usePainting(canvas, painting);
  const { near, at } = choices;
  return (
    <section class="head-distance">
      <DistanceWords track={track} choices={choices} />
      <canvas
        ref={canvas}
        data-part="track-distance"
        role="img"
        aria-label={track.words}
        onPointerMove={(event) => {
          const width = event.currentTarget.clientWidth;
          at.value = Math.floor(distanceAt(event.offsetX / width, track, near.value));
        }}
        onPointerLeave={() => (at.value = null)}
      />
      <DistanceValue reading={at.value === null ? null : readingAt(track, at.value)} />
    </section>
  );
}

function DistanceWords({ track, choices }: { track: Track; choices: Choices }) {
  const { log, near } = choices;
  const scale = heights(track, log.value, () => true);
  const [first, last] = [track.edges[0] ?? 0, (track.edges.at(-1) ?? 1) - 1];
  return (
    <header>
      <h2>Distance</h2>
      <span class="soft">{track.words}; dark: mean, light: largest</span>
      <button
        type="button"
        class="quiet"
        data-part="track-distance-scale"
        onClick={() => (log.value = !log.value)}
      >
        {log.value ? "log" : "linear"} {short(scale.low)}–{short(scale.high)}
      </button>
      {first >= 0 && last > 8 && (
        <button
          type="button"
          class="quiet"
          aria-pressed={near.value}
          onClick={() => (near.value = !near.value)}
        >
          spread near distances
        </button>
      )}
    </header>
  );
}

function DistanceValue({ reading }: { reading: Reading | null }) {
  return (
    <p class="head-distance-value" data-part="track-distance-value">
      {reading ? (
        <>
          distance {tokensIn(reading.tokens)}: <Figure value={reading.mean} places={3} />
          {reading.largest !== reading.mean && (
            <>
              , largest <Figure value={reading.largest} places={3} />
            </>
          )}
        </>
      ) : (
        <span class="soft">Point at a distance to read it.</span>
      )}
    </p>
  );
}

/** The distance at a part 0 … 1 of the chart's width. */
function distanceAt(part: number, track: Track, near: boolean): number {
  const [low, high] = [track.edges[0] ?? 0, track.edges.at(-1) ?? 1];
  if (!near) return low + part * (high - low);
  return low - 1 + (high - low + 1) ** part;
}

/** The part 0 … 1 of the chart's width at which a distance stands. */
function partOf(distance: number, track: Track, near: boolean): number {
  const [low, high] = [track.edges[0] ?? 0, track.edges.at(-1) ?? 1];
  if (!near) return (distance - low) / (high - low);
  return Math.log(distance - low + 1) / Math.log(high - low + 1);
}

function distancePainting(track: Track, { log, near, at }: Choices): Painting {
  return {
    watch: () => [log.value, near.value, at.value],
    paint: (brush) => {
      paintCurve(brush, track, log.peek(), near.peek());
      paintFoot(brush, track, near.peek());
      const pointed = at.peek();
      if (pointed === null) return;
      const x = partOf(pointed + 0.5, track, near.peek()) * brush.size.width;
      brush.pen.fillStyle = styled("--accent");
      brush.pen.fillRect(x, 0, 1, brush.size.height - FOOT);
    },
  };
}

function paintCurve({ pen, size }: Brush, track: Track, log: boolean, near: boolean): void {
  const deep = size.height - FOOT;
  const scale = heights(track, log, () => true);
  pen.fillStyle = styled("--weight");
  for (let px = 0; px < size.width; px += 1) {
    const start = distanceAt(px / size.width, track, near);
    const reading = readingOf(track, start, distanceAt((px + 1) / size.width, track, near));
    if (!reading) continue;
    const mean = deep * heightOf(reading.mean, scale);
    const top = Math.max(deep * heightOf(reading.largest, scale), 1);
    pen.globalAlpha = 0.4;
    pen.fillRect(px, deep - top, 1, top);
    pen.globalAlpha = 0.7;
    pen.fillRect(px, deep - mean, 1, mean);
  }
  pen.globalAlpha = 1;
}

function paintFoot({ pen, size }: Brush, track: Track, near: boolean): void {
  const [low, high] = [track.edges[0] ?? 0, track.edges.at(-1) ?? 1];
  const deep = size.height - FOOT;
  pen.fillStyle = styled("--line");
  pen.fillRect(0, deep, size.width, 1);
  pen.fillStyle = styled("--soft");
  pen.font = `11px ${styled("--mono")}`;
  pen.textBaseline = "bottom";
  for (const value of near ? powersUpTo(high) : stepsBetween(low, high, size.width)) {
    const x = partOf(value + 0.5, track, near) * size.width;
    pen.fillRect(Math.round(x), deep, 1, 4);
    pen.textAlign = x < 12 ? "left" : x > size.width - 24 ? "right" : "center";
    pen.fillText(count(value).replace("-", "−"), x, size.height);
  }
}

function powersUpTo(high: number): number[] {
  const found = [0];
  for (let n = 1; n < high; n *= high > 4096 ? 10 : 4) found.push(n);
  return found;
}

function stepsBetween(low: number, high: number, width: number): number[] {
  const step = roundStep(((high - low) / width) * 80);
  const first = Math.ceil(low / step) * step;
  return Array.from({ length: Math.ceil((high - first) / step) }, (_, n) => first + n * step);
}
