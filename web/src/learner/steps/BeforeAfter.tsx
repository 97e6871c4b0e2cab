import { type Signal, useSignal } from "@preact/signals";
import type { Matrix, Vector } from "../../maths/matrix";
import { Say, say } from "../language";
import { Arrow } from "../parts/Arrows";
import { Bars } from "../parts/Bars";
import { frameOf, type Point } from "../parts/plane";
import { dims } from "../parts/spelling";
import type { LessonState } from "../state";

const SIZE = { width: 340, height: 260, margin: 36 };
const MOST_SHOWN = 64; // other tokens drawn around the chosen one
const MOST_NAMED = 12;

/** The token before and after: its embedding, and its contextual embedding. */
export function BeforeAfter({ state }: { state: LessonState }) {
  const row = state.focus.value;
  const { x, output } = state.worked.value;
  const [before, after] = [x[row] ?? [], output[row] ?? []];
  const most = Math.max(...before.map(Math.abs), ...after.map(Math.abs));
  const isAsWide = before.length === after.length;
  return (
    <section data-part="before-after">
      <h3>{say("sum.before_after", { name: state.lesson.labels[row] ?? "" })}</h3>
      <div class="learn-beside">
        <Bars title={say("sum.before")} values={before} most={most} tone="x" part="before" />
        <span class="learn-operator">→</span>
        <Bars title={say("sum.after")} values={after} most={most} tone="output" part="after" />
        {isAsWide && <Shift state={state} />}
      </div>
      <p>
        {say("sum.contextual")} {state.lesson.heads.length > 1 && say("sum.all_heads")}{" "}
        {!isAsWide && say("sum.not_as_wide", { output: after.length, input: before.length })}
      </p>
    </section>
  );
}

/** Two of the dimensions as a plane; one arrow from x to the output. */
function Shift({ state }: { state: LessonState }) {
  const across = useSignal(0);
  const up = useSignal(1);
  const { x, output } = state.worked.value;
  const width = x[0]?.length ?? 0;
  if (width < 2) return null;
  const point = (v: Vector | undefined): Point => [v?.[across.value] ?? 0, v?.[up.value] ?? 0];
  return (
    <figure class="learn-shift" data-part="shift">
      <Plane state={state} x={x} output={output} point={point} />
      <figcaption class="soft">
        <Say
          name="sum.axes"
          with={{
            across: <Dimension chosen={across} width={width} words={say("sum.across")} />,
            up: <Dimension chosen={up} width={width} words={say("sum.up")} />,
          }}
        />
      </figcaption>
    </figure>
  );
}

interface PlaneProps {
  readonly state: LessonState;
  readonly x: Matrix;
  readonly output: Matrix;
  readonly point: (v: Vector | undefined) => Point;
}

function Plane({ state, x, output, point }: PlaneProps) {
  const row = state.focus.value;
  const { labels } = state.lesson;
  const others = labels.map((_, j) => j).filter((j) => j !== row && j < MOST_SHOWN);
  const shown = [row, ...others];
  const frame = frameOf([...shown.map((j) => point(x[j])), point(output[row])], SIZE);
  const zero = frame.at([0, 0]);
  const [ax, ay] = frame.at(point(x[row]));
  const [bx, by] = frame.at(point(output[row]));
  const words = say("sum.moves", { name: labels[row] ?? "" });
  return (
    <svg viewBox={`0 0 ${SIZE.width} ${SIZE.height}`} role="img" aria-label={words}>
      <title>{words}</title>
      <line class="learn-axis" x1={0} y1={zero[1]} x2={SIZE.width} y2={zero[1]} />
      <line class="learn-axis" x1={zero[0]} y1={0} x2={zero[0]} y2={SIZE.height} />
      {others.map((j) => (
        <Token
          key={j}
          at={frame.at(point(x[j]))}
          name={labels.length <= MOST_NAMED ? (labels[j] ?? "") : ""}
        />
      ))}
      <circle class="learn-token is-chosen" cx={ax} cy={ay} r={4} />
      <text class="learn-label" x={inside(ax)} y={by < ay ? ay + 20 : ay - 10}>
        x({labels[row]})
      </text>
      <Arrow frame={frame} from={point(x[row])} to={point(output[row])} tone="output" thick />
      <text class="learn-label output" x={inside(bx)} y={by < ay ? by - 10 : by + 20}>
        {say("sum.in_context")}
      </text>
    </svg>
  );
}

function inside(x: number): number {
  return Math.min(Math.max(x, 34), SIZE.width - 34);
}

function Token({ at, name }: { at: Point; name: string }) {
  return (
    <g class="learn-token">
      <circle cx={at[0]} cy={at[1]} r={3} />
      <text class="learn-label" x={inside(at[0])} y={at[1] - 8}>
        {name}
      </text>
    </g>
  );
}

function Dimension(props: { chosen: Signal<number>; width: number; words: string }) {
  return (
    <select
      aria-label={props.words}
      value={String(props.chosen.value)}
      onChange={(event) => {
        props.chosen.value = Number(event.currentTarget.value);
      }}
    >
      {dims("x", props.width).map((name, d) => (
        <option key={name} value={String(d)}>
          {name}
        </option>
      ))}
    </select>
  );
}
