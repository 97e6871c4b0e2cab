import { say } from "../language";
import { columnTexts } from "./figures";
import type { SqueezeFrame } from "./frames";
import { clipped, type Grid, gridOf, labelWidth, middleOf } from "./geometry";
import { More } from "./Meet";
import { Num, Rect, Word } from "./marks";
import { type FilmNumbers, isHidden } from "./numbers";
import { ColumnNames, columnsFrom, HiddenRow } from "./Scale";
import { type Segment, STACK_HEIGHT, segmentsOf, stackOf } from "./squeezing";

interface Props {
  readonly numbers: FilmNumbers;
  readonly frame: SqueezeFrame;
  readonly width: number;
}

/** score, e^score, weight; bars as long as the powers, then one bar of length 1. */
export function Squeeze({ numbers, frame, width }: Props) {
  const grid = gridOf(numbers, width);
  const { keys, rest, total, weightSum } = numbers;
  const all = rest ? [...keys, rest] : keys;
  const columns = columnsFrom(
    grid,
    [
      { name: "s", texts: columnTexts(keys.map((key) => key.masked)), tone: "" },
      {
        name: numbers.shift ? "eˢ⁻ᵐᵃˣ" : "eˢ",
        texts: columnTexts([...all.map((one) => one.power), total]),
        tone: "strong",
      },
      {
        name: say("motion.label_weight"),
        texts: columnTexts([...all.map((one) => one.weight), weightSum]),
        tone: "weight strong",
      },
    ],
    grid.isNarrow ? 12 : 26,
  );
  const barsX = (columns.at(-1)?.edge ?? 0) + 20;
  const segments = segmentsOf(numbers, grid, barsX, frame);
  const isThere = [true, frame.hasPowers, frame.hasWeights];
  return (
    <>
      <ColumnNames grid={grid} columns={columns} />
      {all.map((one, i) => {
        const isGone = "masked" in one && isHidden(one);
        return (
          <g key={i}>
            {isGone && <HiddenRow grid={grid} row={i} opacity={1} />}
            {"label" in one && (
              <Word
                x={grid.labelX}
                y={middleOf(grid, i)}
                size={grid.size}
                tone={isGone ? "soft" : "k"}
              >
                {clipped(one.label, grid.labelRoom, grid.size)}
              </Word>
            )}
            {columns.map((column, n) => {
              const text = column.texts[i];
              const isNamed = n > 0 || "label" in one; // those left out have no score of their own
              return (
                isThere[n] &&
                isNamed && (
                  <Num
                    key={column.name}
                    x={column.edge}
                    y={middleOf(grid, i)}
                    size={grid.size}
                    tone={isGone ? "soft" : column.tone}
                    {...(n === 2 && { part: "motion-weight", value: one.weight })}
                  >
                    {text ?? ""}
                  </Num>
                )
              );
            })}
          </g>
        );
      })}
      <More numbers={numbers} grid={grid} />
      <line
        class="motion-line"
        x1={grid.bodyX - 10}
        x2={barsX - 12}
        y1={grid.bottom}
        y2={grid.bottom}
      />
      <Word x={grid.labelX} y={grid.bottom + 16} size={grid.size} tone="soft">
        {say("motion.label_sum")}
      </Word>
      {columns.map(
        (column, n) =>
          n > 0 &&
          (n === 1 ? frame.hasTotal : frame.hasWeights) && (
            <Num
              key={column.name}
              x={column.edge}
              y={grid.bottom + 16}
              size={grid.size}
              tone={column.tone}
            >
              {column.texts[all.length] ?? ""}
            </Num>
          ),
      )}
      <Bars grid={grid} segments={segments} frame={frame} />
    </>
  );
}

interface BarsProps {
  readonly grid: Grid;
  readonly segments: readonly Segment[];
  readonly frame: SqueezeFrame;
}

function Bars({ grid, segments, frame }: BarsProps) {
  const stack = stackOf(grid);
  const size = grid.size - 1.5;
  const under = stack.y + STACK_HEIGHT + 12;
  return (
    <>
      <Rect box={stack} tone="slot" part="motion-stack" />
      {segments.map(({ own, now }, n) => (
        <g key={n}>
          {frame.squeezed > 0 && <Rect box={own} tone="ghost is-weight" />}
          <Rect box={now} tone={n % 2 ? "share is-odd" : "share"} part="motion-share" />
        </g>
      ))}
      {frame.hasWeights ? (
        segments.map(
          ({ label, place }, n) =>
            labelWidth(label, size) + 4 <= place.width && (
              <Word
                key={n}
                x={place.x + place.width / 2}
                y={under}
                size={size}
                at="middle"
                tone="weight"
              >
                {label}
              </Word>
            ),
        )
      ) : (
        <>
          <Word x={stack.x} y={under} size={size} tone="soft motion-number">
            0
          </Word>
          <Num x={stack.x + stack.width} y={under} size={size} tone="soft">
            1
          </Num>
        </>
      )}
    </>
  );
}
