import { figure } from "../../maths/format";
import { say } from "../language";
import { resultPlaces } from "./figures";
import type { HeadsFrame } from "./frames";
import {
  type Columns,
  columnEdge,
  EDGE,
  fitColumns,
  gridOf,
  labelWidth,
  numberWidth,
} from "./geometry";
import { Num, Rect, Word } from "./marks";
import type { FilmNumbers } from "./numbers";
import { shownHeads } from "./timeline";

const ROW = 42;
const CHIP = 30;
const MIX = 76; // from concat to output, through w_o
const BESIDE = 8; // between two heads

interface Props {
  readonly numbers: FilmNumbers;
  readonly frame: HeadsFrame;
  readonly width: number;
}

export function headsHeight(numbers: FilmNumbers): number {
  return placesOf(numbers).output + ROW;
}

/** The middles of the rows below the heads. */
function placesOf(numbers: FilmNumbers) {
  const shown = shownHeads(numbers);
  const more = numbers.heads.length > shown ? 24 : 0;
  const concat = EDGE + shown * ROW + more + ROW / 2 + 8;
  return { more: EDGE + shown * ROW + 10, concat, output: concat + CHIP + MIX };
}

/** Heads as a staircase: each slides straight down into its place in concat, past nothing. */
export function Heads({ numbers, frame, width }: Props) {
  const layout = layoutOf(numbers, width);
  const { grid, bodyX, places, chips, outputs } = layout;
  const at = placesOf(numbers);
  const shown = shownHeads(numbers);
  const label = (text: string, y: number, tone: string) => (
    <Word x={EDGE} y={y} size={grid.size} tone={tone}>
      {text}
    </Word>
  );
  return (
    <>
      {chips.map((columns, h) => {
        const home = EDGE + h * ROW + ROW / 2;
        const slid = frame.slid[h] ?? 0;
        const y = home + (at.concat - home) * slid;
        const isThere = slid === 1;
        const own = numbers.heads[h] ?? [];
        const first = h * own.length;
        const values = isThere ? numbers.concat.slice(first, first + own.length) : own;
        const tone = h === numbers.chosenHead && chips.length > 1 ? "chip is-chosen" : "chip";
        return (
          <g key={h}>
            {label(say("motion.label_head", { number: h + 1 }), home, "")}
            {slid > 0 && <Rect box={chipBox(columns, home)} tone="slot" />}
            {slid < 1 && <Rect box={chipBox(columns, at.concat)} tone="slot" />}
            <Rect box={chipBox(columns, y)} tone={tone} part="motion-chip" />
            <Row {...{ columns, values, y, places }} size={grid.size} part="motion-head" />
          </g>
        );
      })}
      {numbers.heads.length > shown && (
        <Word x={bodyX} y={at.more} size={grid.size} tone="soft">
          {`… ${say("motion.label_more_heads", { count: numbers.heads.length - shown })}`}
        </Word>
      )}
      {label(say("motion.label_concat"), at.concat, "strong")}
      <Mix numbers={numbers} layout={layout} through={frame.through} />
      {label(say("motion.label_output"), at.output, "output strong")}
      <Rect box={chipBox(outputs, at.output)} tone={frame.isMixed ? "result is-full" : "result"} />
      {frame.isMixed && (
        <Row
          columns={outputs}
          values={numbers.output}
          y={at.output}
          places={places}
          size={grid.size}
          part="motion-output"
        />
      )}
    </>
  );
}

interface Layout {
  readonly grid: { readonly size: number; readonly isNarrow: boolean };
  readonly bodyX: number;
  readonly places: number;
  readonly chips: readonly Columns[];
  readonly outputs: Columns;
}

function layoutOf(numbers: FilmNumbers, width: number): Layout {
  const grid = gridOf(numbers, width);
  const shown = shownHeads(numbers);
  const names = [
    say("motion.label_head", { number: shown }),
    say("motion.label_concat"),
    say("motion.label_output"),
  ];
  const bodyX = EDGE + Math.max(...names.map((name) => labelWidth(name, grid.size) + 6)) + 12;
  const all = [...numbers.heads.flat(), ...numbers.concat, ...numbers.output];
  const places = Math.min(resultPlaces(all), grid.isNarrow || shown > 2 ? 2 : 3);
  const text = Math.max(...all.map((value) => numberWidth(figure(value, places), grid.size)));
  const room = width - EDGE - bodyX;
  const each = (room - (shown - 1) * BESIDE) / shown;
  const wanted = Math.min(numbers.heads[0]?.length ?? 1, Math.max(1, Math.floor(8 / shown)));
  const isCut = wanted < (numbers.heads[0]?.length ?? 1);
  const first = fitColumns({
    start: bodyX,
    room: isCut ? each - 18 : each,
    wanted,
    text,
    least: 62,
  });
  const cut = isCut && !first.isCut ? { ...first, isCut, end: first.end + 18 } : first;
  const apart = cut.end - cut.start + BESIDE;
  const chips = Array.from({ length: shown }, (_, h) => ({
    ...cut,
    start: cut.start + h * apart,
    end: cut.end + h * apart,
  }));
  const outputs = fitColumns({
    start: bodyX,
    room,
    wanted: numbers.output.length,
    text,
    least: 62,
  });
  return { grid, bodyX, places, chips, outputs };
}

function chipBox(columns: Columns, y: number) {
  return {
    x: columns.start,
    y: y - CHIP / 2,
    width: columns.end - columns.start,
    height: CHIP,
  };
}

interface RowProps {
  readonly columns: Columns;
  readonly values: readonly number[];
  readonly y: number;
  readonly places: number;
  readonly size: number;
  readonly part: string;
}

function Row({ columns, values, y, places, size, part }: RowProps) {
  return (
    <>
      {values.slice(0, columns.count).map((value, d) => (
        <Num
          key={d}
          x={columnEdge(columns, d)}
          y={y}
          size={size}
          tone="output"
          part={part}
          value={value}
        >
          {figure(value, places)}
        </Num>
      ))}
      {columns.isCut && (
        <Word x={columns.end - 10} y={y} size={size} at="middle" tone="soft">
          …
        </Word>
      )}
    </>
  );
}

/** From each number of concat to each of the output a line: as thick as the entry of w_o is large,
 * dashed where it is negative. Without w_o, from each number to itself. */
function Mix({ numbers, layout, through }: MixProps) {
  const { chips, outputs, grid } = layout;
  const at = placesOf(numbers);
  const [top, bottom] = [at.concat + CHIP / 2 + 2, at.output - CHIP / 2 - 2];
  const links = linksOf(numbers, layout);
  const middle = (columns: Columns, d: number) => columnEdge(columns, d) - columns.text / 2;
  const { w_o } = numbers;
  return (
    <>
      {links.map(({ head, from, to, entry }) => {
        const x = middle(chips[head] as Columns, from);
        const end = middle(outputs, to);
        return (
          <g key={`${head}.${from}.${to}`}>
            <line class="motion-link" x1={x} y1={top} x2={end} y2={bottom} />
            {through > 0 && entry !== 0 && (
              <line
                class={entry < 0 ? "motion-link is-full is-negative" : "motion-link is-full"}
                x1={x}
                y1={top}
                x2={x + (end - x) * through}
                y2={top + (bottom - top) * through}
                stroke-width={0.75 + 3.25 * Math.abs(entry)}
              />
            )}
          </g>
        );
      })}
      <Word x={EDGE} y={(top + bottom) / 2 - 8} size={grid.size} tone="motion-number">
        {w_o ? "· w_o" : "="}
      </Word>
      {w_o && (
        <Word
          x={EDGE}
          y={(top + bottom) / 2 + 9}
          size={grid.size - 1.5}
          tone="soft motion-number"
        >{`${w_o.length} × ${w_o[0]?.length ?? 0}`}</Word>
      )}
    </>
  );
}

interface MixProps {
  readonly numbers: FilmNumbers;
  readonly layout: Layout;
  readonly through: number;
}

interface Link {
  readonly head: number;
  readonly from: number;
  readonly to: number;
  /** The entry of w_o, as a share of the largest. */
  readonly entry: number;
}

/** The entries of w_o between numbers that are drawn. */
function linksOf(numbers: FilmNumbers, { chips, outputs }: Layout): readonly Link[] {
  const { w_o } = numbers;
  const width = numbers.heads[0]?.length ?? 0;
  const entryAt = (row: number, column: number) =>
    w_o ? (w_o[row]?.[column] ?? 0) : row === column ? 0.4 : 0;
  const largest = w_o ? Math.max(...w_o.flat().map(Math.abs), 1e-9) : 1;
  return chips.flatMap((columns, head) =>
    Array.from({ length: columns.count * outputs.count }, (_, n) => {
      const [from, to] = [Math.floor(n / outputs.count), n % outputs.count];
      return { head, from, to, entry: entryAt(head * width + from, to) / largest };
    }).filter(({ from, to }) => w_o || head * width + from === to),
  );
}
