import type { Vector } from "../../maths/matrix";
import { dot } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
import { Arrow } from "./Arrows";
import { type Frame, frameOf, type Plane, type Point, planeOf } from "./plane";
import { Tidy } from "./Tidy";

const SIZE = { width: 360, height: 220, margin: 34 };
const ARC = 34;

interface Props {
  readonly query: Vector;
  readonly keyVector: Vector;
  readonly names: readonly [query: string, key: string];
}

/** A query and a key in the plane they span, and their score by lengths and angle. */
export function Angle({ query, keyVector, names }: Props) {
  const plane = planeOf(query, keyVector);
  if (!plane) {
    return (
      <p class="learn-angle" data-part="angle">
        <Say name="scores.zero" with={{ score: <Figure value={0} places={0} /> }} />
      </p>
    );
  }
  return (
    <figure class="learn-angle" data-part="angle">
      <Picture plane={plane} names={names} />
      <figcaption class="figure">
        <span class="learn-nowrap">
          ‖<span class="q">q</span>‖ <Tidy value={plane.lengths[0]} class="q" /> × ‖
          <span class="k">k</span>‖ <Tidy value={plane.lengths[1]} class="k" />
        </span>{" "}
        <span class="learn-nowrap">
          × cos <Figure value={plane.degrees} places={1} />° (
          <Tidy value={plane.cosine} />)
        </span>{" "}
        <span class="learn-nowrap">
          = <Tidy value={dot(query, keyVector)} />
        </span>
      </figcaption>
    </figure>
  );
}

function Picture({ plane, names }: { plane: Plane; names: readonly [string, string] }) {
  const foot: Point = [plane.second[0], 0];
  const frame = frameOf([plane.first, plane.second], SIZE);
  const [fx, fy] = frame.at(foot);
  const [kx, ky] = frame.at(plane.second);
  const words = say("scores.angle", {
    query: names[0],
    query_length: plane.lengths[0].toFixed(2),
    key: names[1],
    key_length: plane.lengths[1].toFixed(2),
    degrees: plane.degrees.toFixed(1),
  });
  return (
    <svg viewBox={`0 0 ${SIZE.width} ${SIZE.height}`} role="img" aria-label={words}>
      <title>{words}</title>
      <line class="learn-shadow" x1={kx} y1={ky} x2={fx} y2={fy} />
      <Corner plane={plane} frame={frame} />
      <Arrow frame={frame} to={plane.second} tone="k" thick />
      <Arrow frame={frame} to={plane.first} tone="q" />
      <Label frame={frame} at={plane.first} text={`q(${names[0]})`} tone="q" below />
      <Label frame={frame} at={plane.second} text={`k(${names[1]})`} tone="k" />
    </svg>
  );
}

/** The angle as an arc with its degrees. */
function Corner({ plane, frame }: { plane: Plane; frame: Frame }) {
  const [x, y] = frame.at([0, 0]);
  const angle = (plane.degrees * Math.PI) / 180;
  const end = [x + ARC * Math.cos(angle), y - ARC * Math.sin(angle)];
  const half = angle / 2;
  if (plane.degrees < 8) return null;
  return (
    <g class="learn-corner">
      <path d={`M ${x + ARC} ${y} A ${ARC} ${ARC} 0 0 0 ${end[0]} ${end[1]}`} />
      <text x={x + (ARC + 22) * Math.cos(half)} y={y - (ARC + 16) * Math.sin(half) + 4}>
        {plane.degrees.toFixed(1)}°
      </text>
    </g>
  );
}

interface LabelProps {
  readonly frame: Frame;
  readonly at: Point;
  readonly text: string;
  readonly tone: string;
  readonly below?: boolean;
}

function Label({ frame, at, text, tone, below }: LabelProps) {
  const [x, y] = frame.at(at);
  const inside = Math.min(Math.max(x, 40), SIZE.width - 40);
  return (
    <text class={`learn-label ${tone}`} x={inside} y={below ? y + 20 : y - 10}>
      {text.length > 14 ? `${text.slice(0, 12)}…)` : text}
    </text>
  );
}
