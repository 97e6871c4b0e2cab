import { type Signal, useSignal } from "@preact/signals";
import { rotaryScore, turned } from "../../maths/attend";
import { figure } from "../../maths/format";
import type { Matrix, Vector } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
import { Arrow } from "../parts/Arrows";
import { frameOf, type Point } from "../parts/plane";
import type { LessonState } from "../state";

const ANGLE = Math.PI / 12; // per place
const MOST = 24; // places of the sliders
const ELSEWHERE = [1, 10, 100]; // places further on
const SIZE = { width: 300, height: 240, margin: 30 };

/** q and k turned by their places: q·k follows the distance and nothing else. */
export function Rotation({ state }: { state: LessonState }) {
  const m = useSignal(2);
  const n = useSignal(4);
  const { labels } = state.lesson;
  const { queries, keys } = state.worksOn.value;
  const pair = pairIn(queries, keys, state.focus.value);
  if (!pair) return null;
  const { q, k, query, key, at } = pair;
  const score = (by: number) => settled(rotaryScore(q, k, [m.value + by, n.value + by], ANGLE));
  const both = (by: number) => {
    if (Math.min(m.value, n.value) + by < 0 || Math.max(m.value, n.value) + by > MOST) return;
    m.value += by;
    n.value += by;
  };
  return (
    <section class="story-rotation" data-part="rotation">
      <h3>{say("order.rotary_title")}</h3>
      <p>
        <Say name="order.rotary_lead" />
      </p>
      <div class="story-rotation-body">
        <Picture q={q} k={k} m={m.value} n={n.value} score={score(0)} />
        <div>
          <PlaceSlider part="place-q" words={say("order.place_q")} place={m} tone="q" />
          <PlaceSlider part="place-k" words={say("order.place_k")} place={n} tone="k" />
          <div class="lab-controls">
            <button type="button" data-part="both-back" onClick={() => both(-1)}>
              {say("order.both_back")}
            </button>
            <button type="button" data-part="both-on" onClick={() => both(1)}>
              {say("order.both_on")}
            </button>
          </div>
          <p class="lab-total" role="status">
            {say("order.distance", { value: figure(n.value - m.value, 0) })}:{" "}
            <span class="q">q</span>·<span class="k">k</span> ={" "}
            <span data-part="rotary-score">
              <Figure value={score(0)} />
            </span>
          </p>
          <table data-part="rotary-table">
            <caption class="soft">{say("order.rotary_table")}</caption>
            <tbody>
              {ELSEWHERE.map((by) => (
                <tr key={by}>
                  <th scope="row">
                    {say("order.rotary_row", { m: m.value + by, n: n.value + by })}
                  </th>
                  <td>
                    <Figure value={score(by)} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
      <p class="soft">
        {say("order.rotary_pair", {
          query: labels[query] ?? "",
          key: labels[key] ?? "",
          first: at + 1,
          second: at + 2,
          angle: figure((ANGLE * 180) / Math.PI, 0),
        })}
      </p>
    </section>
  );
}

/** Sines and cosines leave a rounding error where there is nothing. */
function settled(value: number): number {
  return Math.abs(value) < 1e-12 ? 0 : value;
}

interface TurnedPair {
  readonly q: readonly [number, number];
  readonly k: readonly [number, number];
  readonly query: number;
  readonly key: number;
  /** Where in the vectors the pair stands. */
  readonly at: number;
}

/** The first pair of dimensions in which some query, best the chosen one, and some key are not
 * both zero: a pair of zeros has no direction to turn. */
function pairIn(queries: Matrix, keys: Matrix, chosen: number): TurnedPair | undefined {
  const rows = [chosen, ...queries.map((_, n) => n)];
  const width = queries[0]?.length ?? 0;
  for (let at = 0; at + 1 < width; at += 2) {
    const pairOf = (row: Vector | undefined) => [row?.[at] ?? 0, row?.[at + 1] ?? 0] as const;
    const isThere = (row: Vector | undefined) => pairOf(row).some((value) => value !== 0);
    const query = rows.find((row) => isThere(queries[row]));
    const key = keys.findLastIndex(isThere);
    if (query !== undefined && key >= 0) {
      return { q: pairOf(queries[query]), k: pairOf(keys[key]), query, key, at };
    }
  }
  return undefined;
}

interface SliderProps {
  readonly part: string;
  readonly words: string;
  readonly place: Signal<number>;
  readonly tone: string;
}

function PlaceSlider({ part, words, place, tone }: SliderProps) {
  return (
    <label class="lab-slider">
      <span class={tone}>
        {words} {place.value}
      </span>
      <input
        type="range"
        min={0}
        max={MOST}
        step={1}
        data-part={part}
        value={place.value}
        onInput={(event) => {
          place.value = Number(event.currentTarget.value);
        }}
      />
    </label>
  );
}

interface PictureProps {
  readonly q: readonly [number, number];
  readonly k: readonly [number, number];
  readonly m: number;
  readonly n: number;
  readonly score: number;
}

function Picture({ q, k, m, n, score }: PictureProps) {
  const reach = Math.max(Math.hypot(...q), Math.hypot(...k));
  const corners: Point[] = [
    [-reach, -reach],
    [reach, reach],
  ];
  const frame = frameOf(corners, SIZE);
  const [zx, zy] = frame.at([0, 0]);
  const words = say("order.rotary_picture", { m, n, score: figure(score) });
  return (
    <svg
      class="story-turn"
      viewBox={`0 0 ${SIZE.width} ${SIZE.height}`}
      role="img"
      aria-label={words}
    >
      <title>{words}</title>
      <line class="learn-axis" x1={0} y1={zy} x2={SIZE.width} y2={zy} />
      <line class="learn-axis" x1={zx} y1={0} x2={zx} y2={SIZE.height} />
      <Arrow frame={frame} to={turned(q, m * ANGLE)} tone="q" thick />
      <Arrow frame={frame} to={turned(k, n * ANGLE)} tone="k" />
      <Letter at={frame.at(turned(q, m * ANGLE))} from={[zx, zy]} letter="q" />
      <Letter at={frame.at(turned(k, n * ANGLE))} from={[zx, zy]} letter="k" />
    </svg>
  );
}

/** A little beyond the head of its arrow. */
function Letter({ at, from, letter }: { at: Point; from: Point; letter: "q" | "k" }) {
  const length = Math.hypot(at[0] - from[0], at[1] - from[1]) || 1;
  const beyond = 1 + 14 / length;
  const x = from[0] + (at[0] - from[0]) * beyond;
  const y = from[1] + (at[1] - from[1]) * beyond + 5;
  return (
    <text class={`learn-label ${letter}`} x={x} y={y}>
      {letter}
    </text>
  );
}
