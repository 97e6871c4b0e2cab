import { figure } from "../../maths/format";
import { sumOf } from "../parts/spelling";
import { entryPlaces, resultPlaces } from "./figures";
import type { MeetFrame } from "./frames";
import {
  axisOf,
  barTo,
  type Columns,
  columnEdge,
  EDGE,
  fitColumns,
  type Grid,
  gridOf,
  middleOf,
  moreLabel,
  numberWidth,
  roleLabel,
  signPlace,
} from "./geometry";
import { Num, Rect, Word } from "./marks";
import { differs, type FilmKey, type FilmNumbers } from "./numbers";

const RAIL = 24; // where q goes down beside the keys
const LEAST_BAR = 56;

interface Props {
  readonly numbers: FilmNumbers;
  readonly frame: MeetFrame;
  readonly width: number;
}

/** q above, the keys below it column by column; q goes from key to key and leaves a score. */
export function Meet({ numbers, frame, width }: Props) {
  const grid = gridOf(numbers, width, RAIL);
  const { keys, query } = numbers;
  const places = entryPlaces([query, ...keys.map((key) => key.key)]);
  const productPlaces = entryPlaces(keys.map((key) => key.products));
  const scorePlaces = resultPlaces(keys.map((key) => key.score));
  const widest = (texts: readonly string[]) =>
    Math.max(...texts.map((text) => numberWidth(text, grid.size)));
  const scoreRoom = widest(keys.map((key) => figure(key.score, scorePlaces))) + 14;
  const entries = [query, ...keys.map((key) => key.key)].flat();
  const columns = fitColumns({
    start: grid.bodyX,
    room: width - EDGE - scoreRoom - 18 - grid.bodyX,
    wanted: query.length,
    text: widest([
      ...entries.map((value) => figure(value, places)),
      ...keys.flatMap((key) => key.products).map((value) => figure(value, productPlaces)),
    ]),
    least: grid.isNarrow ? 0 : 44,
  });
  const scoreX = columns.end + 18;
  const barsX = scoreX + scoreRoom + 14;
  const hasBars = width - EDGE - barsX >= LEAST_BAR;
  const axis = axisOf(
    keys.map((key) => key.score),
    barsX,
    width - EDGE,
  );
  return (
    <>
      <Travel grid={grid} columns={columns} at={frame.at} />
      <Word x={grid.labelX} y={middleOf(grid, -1)} size={grid.size} tone="q strong">
        {roleLabel("q", numbers.label, grid)}
      </Word>
      <Entries values={query} y={middleOf(grid, -1)} {...{ grid, columns, places }} tone="q" />
      {keys.map((key, i) => {
        const [upper, lower] = linesOf(grid, i);
        const shown = i < frame.met ? columns.count : i === frame.met ? frame.products : 0;
        const hasScore = i < frame.scores;
        const slot = { x: scoreX, y: lower - 11, width: scoreRoom, height: 22 };
        return (
          <g key={i}>
            <Rule grid={grid} row={i} />
            <Word x={grid.labelX} y={upper} size={grid.size} tone="k">
              {roleLabel("k", key.label, grid)}
            </Word>
            <Entries values={key.key} y={upper} {...{ grid, columns, places }} tone="k" />
            {i === frame.met && i === restOf(frame.at) && (
              <Carried values={query} from={shown} y={lower} {...{ grid, columns, places }} />
            )}
            <Products
              values={key.products}
              shown={shown}
              y={lower}
              {...{ grid, columns }}
              places={productPlaces}
            />
            <Rect box={slot} tone={hasScore ? "slot is-full" : "slot"} />
            {hasScore && (
              <>
                <Word
                  x={columns.end + 8}
                  y={lower}
                  size={grid.size}
                  at="middle"
                  tone="soft motion-number"
                >
                  {isByHand(key) ? "≠" : "="}
                </Word>
                <Num
                  x={scoreX + scoreRoom - 7}
                  y={lower}
                  size={grid.size}
                  tone="strong"
                  part="motion-score"
                  value={key.score}
                >
                  {figure(key.score, scorePlaces)}
                </Num>
                {hasBars && <Rect box={barTo(axis, key.score, lower, 14)} tone="score" />}
              </>
            )}
          </g>
        );
      })}
      {hasBars && <Zero x={axis.zero} {...{ grid }} />}
      <More numbers={numbers} grid={grid} />
    </>
  );
}

function isByHand(key: FilmKey): boolean {
  return differs(key.score, sumOf(key.products));
}

/** A key's row has two lines: the key, and below it the products. */
function linesOf(grid: Grid, row: number): readonly [number, number] {
  const middle = middleOf(grid, row);
  const apart = grid.rowHeight * 0.2;
  return [middle - apart, middle + apart];
}

const THERE = 1e-3;

/** The row at which q rests; null while it is on its way. */
export function restOf(at: number): number | null {
  const row = Math.round(at);
  return Math.abs(at - row) < THERE ? row : null;
}

/** On its way q is a badge on the rail, beside the numbers; where it rests, a strip as wide as the
 * vectors marks the row. */
function Travel({ grid, columns, at }: { grid: Grid; columns: Columns; at: number }) {
  const y = middleOf(grid, at);
  const rail = EDGE + 9;
  const strip = {
    x: columns.start - 5,
    y: y - grid.rowHeight / 2 + 2,
    width: columns.end - columns.start + 6,
    height: grid.rowHeight - 4,
  };
  return (
    <>
      <line class="motion-rail" x1={rail} x2={rail} y1={middleOf(grid, -1)} y2={grid.bottom - 8} />
      <line class="motion-gone" x1={rail} x2={rail} y1={middleOf(grid, -1)} y2={y} />
      {restOf(at) !== null && <Rect box={strip} tone="strip" part="motion-q" />}
      <circle class="motion-badge" cx={rail} cy={y} r={9} />
      <Word x={rail} y={y - 0.5} size={12} at="middle" tone="motion-on-badge">
        q
      </Word>
    </>
  );
}

interface EntriesProps {
  readonly values: readonly number[];
  readonly y: number;
  readonly grid: Grid;
  readonly columns: Columns;
  readonly places: number;
  readonly tone: string;
}

/** A vector in its columns. */
export function Entries({ values, y, grid, columns, places, tone }: EntriesProps) {
  return (
    <>
      {values.slice(0, columns.count).map((value, d) => (
        <Num key={d} x={columnEdge(columns, d)} y={y} size={grid.size} tone={tone}>
          {figure(value, places)}
        </Num>
      ))}
      {columns.isCut && <Dots {...{ columns, y, grid }} />}
    </>
  );
}

function Dots({ columns, y, grid }: { columns: Columns; y: number; grid: Grid }) {
  return (
    <Word x={columns.end - 10} y={y} size={grid.size} at="middle" tone="soft">
      …
    </Word>
  );
}

interface CarriedProps extends Omit<EntriesProps, "tone"> {
  /** Before this column, products have taken its numbers' place. */
  readonly from: number;
}

/** q's numbers below the key's, until each is multiplied. */
function Carried({ values, from, y, grid, columns, places }: CarriedProps) {
  if (from >= columns.count) return null;
  return (
    <>
      <Word x={grid.labelX} y={y} size={grid.size - 1} tone="q motion-number">
        × q
      </Word>
      {values.slice(0, columns.count).map(
        (value, d) =>
          d >= from && (
            <Num
              key={d}
              x={columnEdge(columns, d)}
              y={y}
              size={grid.size}
              tone="q"
              part="motion-carried"
              value={value}
            >
              {figure(value, places)}
            </Num>
          ),
      )}
      {columns.isCut && <Dots {...{ columns, y, grid }} />}
    </>
  );
}

interface ProductsProps extends Omit<EntriesProps, "tone"> {
  readonly shown: number;
}

/** 2 + 0 − 1: the sign of a later term stands between the columns. */
function Products({ values, shown, y, grid, columns, places }: ProductsProps) {
  const most = Math.min(shown, columns.count);
  return (
    <>
      {values.slice(0, most).map((value, d) => {
        const text = figure(d > 0 ? Math.abs(value) : value, places);
        const signX = signPlace(columns, d, numberWidth(text, grid.size));
        return (
          <g key={d}>
            {d > 0 && (
              <Word x={signX} y={y} size={grid.size - 1} at="middle" tone="soft motion-number">
                {value < 0 ? "−" : "+"}
              </Word>
            )}
            <Num x={columnEdge(columns, d)} y={y} size={grid.size}>
              {text}
            </Num>
          </g>
        );
      })}
      {columns.isCut && shown >= columns.count && <Dots {...{ columns, y, grid }} />}
    </>
  );
}

/** A thin line above a row. */
function Rule({ grid, row }: { grid: Grid; row: number }) {
  const y = grid.top + row * grid.rowHeight;
  return <line class="motion-rule" x1={grid.labelX} x2={grid.width - EDGE} y1={y} y2={y} />;
}

/** Where bars begin. */
export function Zero({ x, grid }: { x: number; grid: Grid }) {
  return <line class="motion-zero" x1={x} x2={x} y1={grid.top + 2} y2={grid.bottom - 2} />;
}

/** How many keys are not drawn. */
export function More({ numbers, grid }: { numbers: FilmNumbers; grid: Grid }) {
  if (!numbers.rest) return null;
  const y = middleOf(grid, numbers.keys.length);
  return (
    <Word x={grid.labelX} y={y} size={grid.size} tone="soft">
      {moreLabel(numbers)}
    </Word>
  );
}
