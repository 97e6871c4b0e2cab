import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Legend } from "../../parts/Legend";
import { useWidth } from "../../parts/useWidth";
import { theme } from "../../shell/theme";
import type { TrainedStatistic, TrainingFacts } from "../../source/answers";
import type { Strips } from "../../source/training";
import { binOf, type Choice, cellOf, choose, type Row } from "./choice";
import { boxStyle, Cursor, Marks } from "./Marks";
import { marksOf } from "./overLimit";
import { isBinned, readingAt } from "./reading";
import { StripHeader } from "./StripHeader";
import { StripTable } from "./StripTable";
import { type At, at, GAP, layoutOf, type StripLayout, TOP } from "./stripLayout";
import { paintStrip } from "./stripPainting";
import { stripScale } from "./stripScale";

interface Props {
  readonly facts: TrainingFacts;
  readonly statistic: TrainedStatistic;
  readonly rows: readonly Row[];
  readonly strips: Strips;
  readonly choice: Choice;
  /** Whether the keys move in this strip. */
  readonly isActive: boolean;
  readonly onDrawn: () => void;
  /** What is told of the chosen head, drawn with the same steps across. */
  readonly detail: (layout: StripLayout) => ComponentChildren;
}

/** One statistic: heads down, steps across. */
export function StripChart(props: Props) {
  const { facts, statistic, rows, strips, choice, isActive } = props;
  const box = useRef<HTMLDivElement>(null);
  const room = useWidth(box);
  const bins = strips.first.length;
  const layout = useMemo(
    () => layoutOf(room, rows, facts.places, bins),
    [room, rows, facts.places, bins],
  );
  const scale = useMemo(() => stripScale(strips, statistic), [strips, statistic]);
  const marks = useMemo(() => marksOf(facts, rows, strips), [facts, rows, strips]);
  const [pointed, setPointed] = useState<At | null>(null);
  const bin = binOf(choice.step, strips);
  const chosen = choice.row === undefined ? null : { row: choice.row, bin };
  const now = choice.hasStep || chosen ? bin : null;
  const isPooled = isBinned(strips) || bins > layout.width;
  const read = pointed ?? (isActive ? chosen : null);
  const row = read ? rows[read.row] : undefined;
  const reading = read && row ? readingAt(strips, cellOf(row, strips), read.bin) : undefined;
  return (
    <section
      class={isActive ? "train-strip train-active" : "train-strip"}
      data-part="strip"
      data-statistic={strips.statistic}
      aria-label={strips.statistic}
    >
      <StripHeader {...{ statistic, isActive, marks, reading }} name={strips.statistic} row={row} />
      <div class="train-room" ref={box}>
        <div class="train-scroll">
          <Field
            {...props}
            {...{ layout, scale, marks, chosen, now, pointed }}
            onPoint={setPointed}
          />
        </div>
      </div>
      <div class="train-key">
        <Legend scale={scale} words={isPooled ? "mean of the steps of a column" : ""} />
        <StripTable {...{ rows, strips, marks }} />
      </div>
      {isActive && props.detail(layout)}
    </section>
  );
}

interface FieldProps extends Props {
  readonly layout: StripLayout;
  readonly scale: ReturnType<typeof stripScale>;
  readonly marks: ReturnType<typeof marksOf>;
  readonly chosen: At | null;
  readonly now: number | null;
  readonly pointed: At | null;
  readonly onPoint: (at: At | null) => void;
}

/** The picture itself, and what lies over it. */
function Field(props: FieldProps) {
  const { strips, rows, layout, marks, chosen, now, pointed, isActive } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  usePainting(canvas, props);
  const meant = (event: MouseEvent) => {
    const corner = canvas.current?.getBoundingClientRect();
    if (!corner) return null;
    return at(layout, event.clientX - corner.left, event.clientY - corner.top);
  };
  const pick = (event: MouseEvent) => {
    const found = meant(event);
    const label = found && rows[found.row]?.label;
    if (found && label) choose(strips.statistic, label, strips.first[found.bin] ?? 0);
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the link over the cell answers to keys
    <nav
      class="train-field"
      aria-label={`${strips.statistic}: heads down, steps across`}
      data-part="strip-field"
      data-left={layout.left}
      data-width={layout.width}
      data-bins={layout.bins}
      data-row={layout.row}
      data-top={TOP}
      data-gap={GAP}
      style={{ height: `${layout.height}px` }}
      onPointerMove={(event) => props.onPoint(meant(event))}
      onPointerLeave={() => props.onPoint(null)}
      onClick={pick}
    >
      <canvas
        ref={canvas}
        style={{ width: `${layout.left + layout.width + 1}px`, height: `${layout.height}px` }}
      />
      <Marks {...{ layout, marks, now }} />
      {pointed && <span class="train-pointed" style={boxStyle(layout, pointed)} />}
      {isActive && chosen && <Cursor {...{ strips, rows, layout }} at={chosen} />}
    </nav>
  );
}

function usePainting(
  canvas: { readonly current: HTMLCanvasElement | null },
  { strips, rows, facts, scale, layout, onDrawn }: FieldProps,
): void {
  useLayoutEffect(() => {
    if (!canvas.current || layout.width === 0) return;
    const picture = { strips, rows, places: facts.places, scale, layout };
    paintStrip(canvas.current, picture, devicePixelRatio || 1);
    onDrawn();
  }, [strips, rows, scale, layout, theme.value]);
}
