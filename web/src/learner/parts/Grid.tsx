import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { figure, placesOf } from "../../maths/format";
import { type Phrase, say, sayPhrase } from "../language";
import { type GridProps, GridRow } from "./GridRow";
import type { Sheet } from "./sheets";
import { numbersIn, type Span, useSpans } from "./spans";

const ROW_HEIGHT = 2;
const SAMPLE = 2000;

interface Measures {
  readonly places: number;
  /** Of a column and of the names beside the rows, in rem. */
  readonly width: number;
  readonly names: number;
}

function longestOf(texts: readonly string[], most: number): number {
  return texts.reduce((longest, text) => Math.max(longest, Math.min(text.length, most)), 1);
}

/** Decimals that all numbers are shown with, and the widths that hold them. */
function measuredText(sheet: Sheet): Measures {
  const values = sheet.values.slice(0, Math.ceil(SAMPLE / (sheet.columns.length || 1))).flat();
  const places = placesOf(values);
  const longest = values.reduce((most, value) => Math.max(most, figure(value, places).length), 1);
  const columns = longestOf(sheet.columns, 8);
  return {
    places,
    width: Math.max(longest, columns) * 0.53 + 0.6,
    names: longestOf(sheet.rows, 12) * 0.55 + 1,
  };
}

/** A matrix whose numbers can be changed. Tab reaches it once; arrow keys move inside. */
export function Grid(props: GridProps) {
  const { sheet, mark = -1 } = props;
  const box = useRef<HTMLDivElement>(null);
  const { places, width, names } = measuredText(sheet);
  const extent = {
    rows: sheet.rows.length,
    columns: sheet.columns.length,
    height: ROW_HEIGHT,
    width,
  };
  const { isWindowed, spans, look } = useSpans(box, extent, mark);
  const stop = useSignal<readonly [number, number]>([Math.max(mark, 0), 0]);
  const problem = useSignal<Phrase | null>(null);
  const drawn = {
    ...props,
    places,
    stop,
    complain: (why: Phrase | null) => {
      problem.value = why;
    },
  };
  return (
    <figure class={`learn-grid role-${sheet.role}`} data-part="grid" data-matrix={sheet.name}>
      <figcaption>
        <b>{sheet.title}</b> {props.remark && <span class="soft">{props.remark}</span>}
      </figcaption>
      <div class={`scroll ${isWindowed ? "is-windowed" : ""}`} ref={box} onScroll={look}>
        <table aria-label={sheet.title}>
          <Widths
            columns={spans.columns}
            count={sheet.columns.length}
            width={width}
            names={names}
          />
          <Names sheet={sheet} columns={spans.columns} lit={props.lit?.column} />
          <tbody>
            <Gap rows={spans.rows.first} />
            {numbersIn(spans.rows).map((row) => (
              <GridRow key={row} drawn={drawn} row={row} spans={spans} />
            ))}
            <Gap rows={sheet.rows.length - spans.rows.last} />
          </tbody>
        </table>
      </div>
      {isWindowed && (
        <p class="learn-size soft">
          {say("cell.scroll", { rows: sheet.rows.length, columns: sheet.columns.length })}
        </p>
      )}
      {problem.value && (
        <p class="learn-problem" role="alert" data-part="problem">
          {sayPhrase(problem.value)}
        </p>
      )}
    </figure>
  );
}

interface WidthsProps {
  readonly columns: Span;
  readonly count: number;
  readonly width: number;
  readonly names: number;
}

/** The columns left out on either side keep their width, so that the scroll bar tells the truth. */
function Widths({ columns, count, width, names }: WidthsProps) {
  const wide = (many: number) => ({ width: `${many * width}rem` });
  return (
    <colgroup>
      <col style={{ width: `${names}rem` }} />
      <col style={wide(columns.first)} />
      {numbersIn(columns).map((column) => (
        <col key={column} style={wide(1)} />
      ))}
      <col style={wide(count - columns.last)} />
    </colgroup>
  );
}

function Names(props: { sheet: Sheet; columns: Span; lit: number | undefined }) {
  return (
    <thead>
      <tr>
        <td class="learn-name" />
        <td />
        {numbersIn(props.columns).map((column) => (
          <th
            key={column}
            scope="col"
            class={props.lit === column ? "is-lit" : ""}
            title={props.sheet.columns[column]}
          >
            {props.sheet.columns[column]}
          </th>
        ))}
        <td />
      </tr>
    </thead>
  );
}

function Gap({ rows }: { rows: number }) {
  if (rows <= 0) return null;
  return <tr style={{ height: `${rows * ROW_HEIGHT}rem` }} />;
}
