import { useEffect, useRef } from "preact/hooks";
import { figure } from "../../maths/format";
import { linkTo, place } from "../../shell/address";
import type { Strips } from "../../source/training";
import { cellOf, type Row } from "./choice";
import type { Mark } from "./overLimit";
import { readingAt } from "./reading";
import { type At, FOOT, leftOf, type StripLayout } from "./stripLayout";

interface Props {
  readonly layout: StripLayout;
  readonly marks: readonly Mark[];
  /** The bin of the step that is meant. */
  readonly now: number | null;
}

const LEAST_RADIUS = 2.5;
const MOST_RADIUS = 4.5;

/** Where each head first went over the limit, and a line through the step that is meant. */
export function Marks({ layout, marks, now }: Props) {
  const radius = Math.min(Math.max(layout.row / 3, LEAST_RADIUS), MOST_RADIUS);
  const x = (bin: number) => leftOf(layout, bin + 0.5);
  return (
    <svg
      class="train-marks"
      width={layout.left + layout.width + 1}
      height={layout.height}
      aria-hidden="true"
    >
      {now !== null && (
        <line class="train-now" x1={x(now)} x2={x(now)} y1={0} y2={layout.height - FOOT + 4} />
      )}
      {marks.map((one) => (
        <circle
          key={one.label}
          class={one.isAlarm ? "train-alarm" : "train-over"}
          data-part="over-mark"
          data-head={one.label}
          data-step={one.step}
          data-alarm={one.isAlarm}
          cx={x(one.bin)}
          cy={(layout.tops[one.row] ?? 0) + layout.row / 2}
          r={radius}
        />
      ))}
    </svg>
  );
}

interface CursorProps {
  readonly strips: Strips;
  readonly rows: readonly Row[];
  readonly layout: StripLayout;
  readonly at: At;
}

/** The box around a cell, wide enough to be seen. */
export function boxStyle(layout: StripLayout, at: At) {
  const wide = layout.width / Math.max(layout.bins, 1);
  const width = Math.max(wide, 5);
  const left = leftOf(layout, at.bin) - (width - wide) / 2;
  const top = layout.tops[at.row] ?? 0;
  return {
    left: `${left}px`,
    top: `${top}px`,
    width: `${width}px`,
    height: `${layout.row}px`,
  };
}

/** A real link over the cell that is meant: it has the focus of the arrow keys; Enter follows it. */
export function Cursor({ strips, rows, layout, at }: CursorProps) {
  const link = useRef<HTMLAnchorElement>(null);
  const row = rows[at.row];
  const isMoved = useRef(false);
  useEffect(() => {
    if (isMoved.current) link.current?.scrollIntoView({ block: "nearest" });
    isMoved.current = true;
  }, [at.row]);
  if (!row) return null;
  const reading = readingAt(strips, cellOf(row, strips), at.bin);
  return (
    <a
      ref={link}
      class="train-cell"
      data-part="strip-cell"
      data-head={row.label}
      data-step={reading.first}
      href={linkTo(place.value)}
      style={boxStyle(layout, at)}
      onClick={(event) => {
        event.preventDefault();
        event.stopPropagation();
        document.getElementById("train-snapshot")?.focus();
      }}
    >
      <span class="unseen">
        {`${row.label} step ${reading.first}: ${figure(reading.mean)}; Enter for its stored map`}
      </span>
    </a>
  );
}
