import type { Frame, Point } from "./plane";

interface Props {
  readonly frame: Frame;
  readonly from?: Point;
  readonly to: Point;
  readonly tone: string;
  readonly thick?: boolean;
}

/** An arrow's head: its three corners, and where the line meets it. */
function headOf([x0, y0]: Point, [x1, y1]: Point, size: number) {
  const angle = Math.atan2(y1 - y0, x1 - x0);
  const behind = (turn: number, far: number): Point => [
    x1 - far * Math.cos(angle + turn),
    y1 - far * Math.sin(angle + turn),
  ];
  const corners = [[x1, y1], behind(0.45, size), behind(-0.45, size)];
  return {
    corners: corners.map((corner) => corner.join(",")).join(" "),
    neck: behind(0, size / 2),
  };
}

/** An arrow in the plane, in the colour of its role. */
export function Arrow({ frame, from = [0, 0], to, tone, thick }: Props) {
  const [start, end] = [frame.at(from), frame.at(to)];
  const length = Math.hypot(end[0] - start[0], end[1] - start[1]);
  if (length < 1) return null;
  const { corners, neck } = headOf(start, end, Math.min(thick ? 16 : 11, length));
  return (
    <g class={`learn-arrow ${tone} ${thick ? "is-thick" : ""}`}>
      <line x1={start[0]} y1={start[1]} x2={neck[0]} y2={neck[1]} />
      <polygon points={corners} />
    </g>
  );
}
