import { useRef } from "preact/hooks";
import { useWidth } from "../../parts/useWidth";
import { axisOf, placedNames, powerText, shareBetween } from "./axis";

export interface Line {
  readonly name: string;
  /** Unscaled and scaled have a colour each; what is typical is whole, what is rare dashed. */
  readonly look: "raw" | "raw-rare" | "scaled" | "scaled-rare";
  readonly points: readonly (readonly [x: number, y: number])[];
}

interface Props {
  readonly title: string;
  readonly across: string;
  readonly lines: readonly Line[];
  readonly log: boolean;
  readonly ends: readonly [x: number, x: number];
  readonly ticks: readonly number[];
  /** A place on the x axis that is looked at. */
  readonly at?: number;
  readonly height?: number;
}

const LEFT = 44;
const RIGHT = 128; // the names at the lines' ends
const TOP = 10;
const BOTTOM = 36;

/** Lines over one axis, each named where it ends. */
export function Chart({ height = 250, ...props }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, 560);
  const drawn = props.lines.filter((line) => line.points.length > 0);
  const values = drawn.flatMap((line) => line.points.map((point) => point[1]));
  const y = axisOf(values, props.log);
  const right = width - RIGHT;
  const foot = height - BOTTOM;
  const across = (x: number) => LEFT + (right - LEFT) * shareBetween(x, props.ends, props.log);
  const down = (value: number) => foot - (foot - TOP) * shareBetween(value, y.ends, props.log);
  return (
    <div class="lab-chart" ref={box}>
      <svg width={width} height={height} role="img" aria-label={props.title}>
        {y.ticks.map((value) => (
          <g key={value} class="lab-grid">
            <line x1={LEFT} x2={right} y1={down(value)} y2={down(value)} />
            <text x={LEFT - 6} y={down(value) + 4} text-anchor="end">
              {powerText(value)}
            </text>
          </g>
        ))}
        {props.ticks.map((value) => (
          <text key={value} x={across(value)} y={foot + 16} text-anchor="middle">
            {value}
          </text>
        ))}
        <text x={(LEFT + right) / 2} y={height - 4} text-anchor="middle">
          {props.across}
        </text>
        {props.at !== undefined && (
          <line class="lab-at" x1={across(props.at)} x2={across(props.at)} y1={TOP} y2={foot} />
        )}
        {drawn.map((line) => (
          <Curve key={line.name} line={line} across={across} down={down} />
        ))}
        {placedNames(drawn, down, TOP, foot).map(({ line, y: at }) => (
          <text key={line.name} class={`lab-name is-${line.look}`} x={right + 8} y={at + 4}>
            {line.name}
          </text>
        ))}
      </svg>
    </div>
  );
}

interface CurveProps {
  readonly line: Line;
  readonly across: (x: number) => number;
  readonly down: (y: number) => number;
}

function Curve({ line, across, down }: CurveProps) {
  const path = line.points.map(([x, y]) => `${across(x)},${down(y)}`).join(" ");
  return (
    <g class={`lab-curve is-${line.look}`}>
      <polyline points={path} />
      {line.points.map(([x, y]) => (
        <circle key={x} cx={across(x)} cy={down(y)} r={2.5} data-value={String(y)}>
          <title>{`${line.name}, ${x}: ${y}`}</title>
        </circle>
      ))}
    </g>
  );
}
