import { figure } from "../../maths/format";
import { say } from "../language";
import { columnTexts, entryPlaces, resultPlaces } from "./figures";
import type { FlowFrame } from "./frames";
import {
  columnEdge,
  EDGE,
  fitColumns,
  type Grid,
  gridOf,
  middleOf,
  numberWidth,
  roleLabel,
} from "./geometry";
import { Entries, More } from "./Meet";
import { Num, Rect, Word } from "./marks";
import { type FilmNumbers, isHidden } from "./numbers";
import { NODE_WIDTH, outline, type Ribbons, ribbonsOf } from "./ribbons";
import { HiddenRow } from "./Scale";

interface Props {
  readonly numbers: FilmNumbers;
  readonly frame: FlowFrame;
  readonly width: number;
}

/** Where the sum stands under the values. */
const SUM_BELOW = 26;

/** Values on the left, ribbons as wide as weights, the output's bar; below, the sum so far. */
export function Flow({ numbers, frame, width }: Props) {
  const grid = gridOf(numbers, width);
  const { keys, rest } = numbers;
  const all = rest ? [...keys, rest] : keys;
  const weights = columnTexts(all.map((one) => one.weight));
  const weightRoom = Math.max(...weights.map((text) => numberWidth(text, grid.size)));
  const places = entryPlaces(keys.map((key) => key.value));
  const sums = [numbers.context, numbers.summed, ...keys.map((key) => key.term)].flat();
  const sumPlaces = Math.min(resultPlaces(sums), grid.isNarrow ? 2 : 3);
  const start = grid.isNarrow ? grid.bodyX : grid.bodyX + weightRoom + 22;
  const columns = fitColumns({
    start,
    room: width - EDGE - NODE_WIDTH - (grid.isNarrow ? 56 : 170) - start,
    wanted: numbers.context.length,
    text: Math.max(
      ...keys.flatMap((key) => key.value).map((v) => numberWidth(figure(v, places), grid.size)),
      ...sums.map((v) => numberWidth(figure(v, sumPlaces), grid.size)),
    ),
    least: grid.isNarrow ? 0 : 44,
  });
  const drawn = ribbonsOf(numbers, grid, columns.end + 8);
  const sumY = grid.bottom + SUM_BELOW;
  return (
    <>
      {keys.map((key, i) => isHidden(key) && <HiddenRow key={i} grid={grid} row={i} opacity={1} />)}
      {frame.current !== null && all[frame.current]?.weight !== 0 && (
        <Rect
          box={{
            x: 2,
            y: grid.top + frame.current * grid.rowHeight + 3,
            width: columns.end,
            height: grid.rowHeight - 6,
          }}
          tone="current"
        />
      )}
      <Drawn grid={grid} drawn={drawn} frame={frame} sumY={sumY} end={columns.end} />
      <Heads grid={grid} edge={grid.bodyX + weightRoom} />
      {all.map((one, i) => {
        const y = middleOf(grid, i);
        const tone = "masked" in one && isHidden(one) ? "soft" : "";
        const apart = grid.isNarrow ? grid.rowHeight * 0.21 : 0;
        return (
          <g key={i}>
            {"label" in one && (
              <>
                <Word x={grid.labelX} y={y - apart} size={grid.size} tone={tone || "v"}>
                  {roleLabel("v", one.label, grid)}
                </Word>
                <Entries values={one.value} {...{ y, grid, columns, places }} tone={tone || "v"} />
              </>
            )}
            {grid.isNarrow ? (
              <Word
                x={"label" in one ? grid.labelX : columns.start}
                y={y + apart}
                size={grid.size - 0.5}
                tone={`motion-number ${tone || "weight"}`}
              >
                {`× ${weights[i]}`}
              </Word>
            ) : (
              <Num
                x={grid.bodyX + weightRoom}
                y={y}
                size={grid.size}
                tone={`strong ${tone || "weight"}`}
              >
                {weights[i] ?? ""}
              </Num>
            )}
          </g>
        );
      })}
      <MoreAbove numbers={numbers} grid={grid} />
      <Rect
        box={{
          x: columns.start - 5,
          y: sumY - 13,
          width: columns.end - columns.start + 6,
          height: 26,
        }}
        tone={frame.isDone ? "result is-full" : "result"}
      />
      <Word x={grid.labelX} y={sumY} size={grid.size} tone="output strong">
        {say(frame.isDone ? "motion.label_output" : "motion.label_so_far")}
      </Word>
      {frame.sum.slice(0, columns.count).map((value, d) => (
        <Num
          key={d}
          x={columnEdge(columns, d)}
          y={sumY}
          size={grid.size}
          tone="output strong"
          part="motion-sum"
          value={value}
        >
          {figure(value, sumPlaces)}
        </Num>
      ))}
      {columns.isCut && (
        <Word x={columns.end - 10} y={sumY} size={grid.size} at="middle" tone="soft">
          …
        </Word>
      )}
    </>
  );
}

function Heads({ grid, edge }: { grid: Grid; edge: number }) {
  if (grid.isNarrow) return null;
  return (
    <Num x={edge} y={middleOf(grid, -1) + 6} size={grid.size - 1.5} tone="soft motion-name">
      {say("motion.label_weight")}
    </Num>
  );
}

/** On a phone the weight of those left out stands in the line below. */
function MoreAbove({ numbers, grid }: { numbers: FilmNumbers; grid: Grid }) {
  const lifted = grid.isNarrow ? { ...grid, top: grid.top - grid.rowHeight * 0.21 } : grid;
  return <More numbers={numbers} grid={lifted} />;
}

interface DrawnProps {
  readonly grid: Grid;
  readonly drawn: Ribbons;
  readonly frame: FlowFrame;
  readonly sumY: number;
  readonly end: number;
}

function Drawn({ grid, drawn, frame, sumY, end }: DrawnProps) {
  const { ribbons, node } = drawn;
  const filled = ribbons.slice(0, frame.arrived).reduce((sum, ribbon) => sum + ribbon.thickness, 0);
  const box = { x: node.x, y: node.y, width: NODE_WIDTH, height: node.height };
  const middle = node.x + NODE_WIDTH / 2;
  return (
    <>
      {ribbons.map((ribbon, i) => {
        const share = i < frame.arrived ? 1 : i === frame.arrived ? frame.flown : 0;
        return (
          <g key={i}>
            <polygon class="motion-track" points={outline(ribbon, 1)} />
            {share > 0 && (
              <polygon
                class="motion-ribbon"
                points={outline(ribbon, share)}
                data-part="motion-ribbon"
              />
            )}
          </g>
        );
      })}
      <Rect box={box} tone="node" />
      {filled > 0 && (
        <Rect box={{ ...box, height: filled }} tone="node is-full" part="motion-node" />
      )}
      <path class="motion-lead" d={`M${middle},${node.y + node.height} V${sumY} H${end + 14}`} />
      <path class="motion-tip" d={`M${end + 7},${sumY} l9,-5 v10 z`} />
      <Word
        x={grid.width - EDGE}
        y={middleOf(grid, -1) + 6}
        size={grid.size - 1.5}
        at="end"
        tone="output"
      >
        {say("motion.label_output")}
      </Word>
    </>
  );
}
