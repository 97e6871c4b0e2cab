import type { JSX } from "preact";
import type { Box } from "./geometry";

// What every scene is drawn of.

interface WordProps {
  readonly x: number;
  /** The middle of the line. */
  readonly y: number;
  readonly size: number;
  readonly at?: "start" | "middle" | "end";
  /** Role or manner: q, k, v, weight, output, soft, strong. */
  readonly tone?: string;
  /** What it is called in tests, and every digit of it. */
  readonly part?: string;
  readonly value?: number;
  readonly children: string;
}

export function Word(props: WordProps): JSX.Element {
  const { x, y, size, at = "start", tone = "", part, value, children } = props;
  return (
    <text
      class={`motion-word ${tone}`}
      x={x}
      y={y + size * 0.35}
      font-size={size}
      text-anchor={at}
      data-part={part}
      data-value={value}
    >
      {children}
    </text>
  );
}

/** A number, by its right edge. */
export function Num(props: WordProps): JSX.Element {
  return <Word at="end" {...props} tone={`motion-number ${props.tone ?? ""}`} />;
}

interface RectProps {
  readonly box: Box;
  readonly tone: string;
  readonly opacity?: number;
  readonly part?: string;
}

export function Rect({ box, tone, opacity = 1, part }: RectProps): JSX.Element {
  const { x, y, width, height } = box;
  return (
    <rect
      class={`motion-${tone}`}
      x={x}
      y={y}
      width={Math.max(width, 0)}
      height={height}
      rx={Math.min(4, height / 2)}
      opacity={opacity}
      data-part={part}
    />
  );
}
