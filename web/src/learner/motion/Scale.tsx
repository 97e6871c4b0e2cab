import { figure } from "../../maths/format";
import { say } from "../language";
import { result, resultPlaces } from "./figures";
import type { ScaleFrame } from "./frames";
import {
  axisOf,
  barTo,
  clipped,
  EDGE,
  type Grid,
  gridOf,
  labelWidth,
  middleOf,
  numberWidth,
} from "./geometry";
import { More, Zero } from "./Meet";
import { Num, Rect, Word } from "./marks";
import { type FilmKey, type FilmNumbers, isHidden } from "./numbers";
import { hasMask } from "./timeline";

/** A column of numbers with its name above. */
export interface Column {
  readonly name: string;
  readonly texts: readonly string[];
  readonly edge: number;
  readonly tone: string;
}

/** Right edges for columns one after another, each as wide as its widest text. */
export function columnsFrom(
  grid: Grid,
  given: readonly Omit<Column, "edge">[],
  apart: number,
): readonly Column[] {
  let edge = grid.bodyX - apart;
  return given.map((column) => {
    const numbers = column.texts.map((text) => numberWidth(text, grid.size));
    edge += apart + Math.max(labelWidth(column.name, grid.size - 1.5), ...numbers);
    return { ...column, edge };
  });
}

export function ColumnNames({ grid, columns }: { grid: Grid; columns: readonly Column[] }) {
  return (
    <>
      {columns.map((column) => (
        <Num
          key={column.name}
          x={column.edge}
          y={middleOf(grid, -1) + 6}
          size={grid.size - 1.5}
          tone="soft motion-name"
        >
          {column.name}
        </Num>
      ))}
    </>
  );
}

interface Props {
  readonly numbers: FilmNumbers;
  readonly frame: ScaleFrame;
  readonly width: number;
}

/** Scores as bars that shrink; hidden ones go. What they were stays as an outline. */
export function Scale({ numbers, frame, width }: Props) {
  const grid = gridOf(numbers, width);
  const { keys } = numbers;
  const masks = hasMask(numbers);
  const textsOf = (of: (key: FilmKey) => number) => {
    const places = resultPlaces(keys.map(of));
    return keys.map((key) => figure(of(key), places));
  };
  const sign = numbers.isScaled ? `÷ ${result(Math.sqrt(numbers.query.length))} =` : "=";
  const signRoom = grid.isNarrow ? 0 : numberWidth(sign, grid.size) + 12;
  const columns = columnsFrom(
    grid,
    [
      { name: say("motion.label_score"), texts: textsOf((key) => key.score), tone: "" },
      { name: say("motion.label_scaled"), texts: textsOf((key) => key.scaled), tone: "strong" },
      ...(masks
        ? [
            {
              name: say("motion.label_masked"),
              texts: textsOf((key) => key.masked),
              tone: "strong",
            },
          ]
        : []),
    ],
    grid.isNarrow ? 12 : 22,
  ).map((column, n) => (n > 0 ? { ...column, edge: column.edge + signRoom } : column));
  const barsX = (columns.at(-1)?.edge ?? 0) + 22;
  const axis = axisOf(
    keys.flatMap((key) => [key.score, key.scaled]),
    barsX,
    width - EDGE,
  );
  const isThere = [true, frame.isDivided, frame.isMasked];
  return (
    <>
      <ColumnNames grid={grid} columns={columns} />
      {keys.map((key, i) => {
        const y = middleOf(grid, i);
        const gone = isHidden(key) ? frame.hidden : 0;
        const value = (key.score + (key.scaled - key.score) * frame.shrunk) * (1 - gone);
        return (
          <g key={i}>
            {gone > 0 && <HiddenRow grid={grid} row={i} opacity={gone} />}
            <Word x={grid.labelX} y={y} size={grid.size} tone={gone === 1 ? "soft" : "k"}>
              {clipped(key.label, grid.labelRoom, grid.size)}
            </Word>
            {columns.map(
              (column, n) =>
                isThere[n] && (
                  <Num
                    key={column.name}
                    x={column.edge}
                    y={y}
                    size={grid.size}
                    tone={gone === 1 ? "soft" : column.tone}
                  >
                    {column.texts[i] ?? ""}
                  </Num>
                ),
            )}
            {signRoom > 0 && frame.isDivided && (
              <Word
                x={(columns[0]?.edge ?? 0) + 11}
                y={y}
                size={grid.size}
                tone="soft motion-number"
              >
                {sign}
              </Word>
            )}
            <Rect box={barTo(axis, key.score, y)} tone="ghost" />
            <Rect box={barTo(axis, value, y)} tone="score" />
          </g>
        );
      })}
      <Zero x={axis.zero} grid={grid} />
      <More numbers={numbers} grid={grid} />
    </>
  );
}

/** The row of a key that may not be seen. */
export function HiddenRow({ grid, row, opacity }: { grid: Grid; row: number; opacity: number }) {
  const y = grid.top + row * grid.rowHeight + 3;
  const box = { x: 2, y, width: grid.width - 4, height: grid.rowHeight - 6 };
  return <Rect box={box} tone="hidden" opacity={opacity} />;
}
