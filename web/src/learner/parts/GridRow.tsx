import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { figure, HIDDEN } from "../../maths/format";
import { type Phrase, say } from "../language";
import { Cell, PutBack } from "./Cell";
import { type Book, cellName, type Sheet } from "./sheets";
import { numbersIn, type Span } from "./spans";

export interface GridProps {
  readonly sheet: Sheet;
  readonly book: Book;
  /** The row of the token that is spelt out; −1 for none. */
  readonly mark?: number;
  /** The row and the column that take part in the product being spelt out. */
  readonly lit?: { readonly row?: number; readonly column?: number };
  readonly onSpot?: (row: number, column: number) => void;
  /** How it came about, after its title. */
  readonly remark?: ComponentChildren;
}

interface Drawn extends GridProps {
  readonly places: number;
  readonly stop: Signal<readonly [row: number, column: number]>;
  readonly complain: (why: Phrase | null) => void;
}

interface RowProps {
  readonly drawn: Drawn;
  readonly row: number;
  readonly spans: { readonly rows: Span; readonly columns: Span };
}

export function GridRow({ drawn, row, spans }: RowProps) {
  const { sheet, mark } = drawn;
  const name = sheet.rows[row] ?? "";
  return (
    <tr class={row === mark ? "is-marked" : ""}>
      <th scope="row" class="learn-name" title={name}>
        {name}
      </th>
      <td />
      {numbersIn(spans.columns).map((column) => (
        <GridCell key={column} drawn={drawn} row={row} column={column} spans={spans} />
      ))}
      <td />
    </tr>
  );
}

/** A whole row, a whole column, or where both are given the one cell in which they meet. */
function litAt(lit: GridProps["lit"], row: number, column: number): boolean {
  if (!lit) return false;
  return (lit.row ?? row) === row && (lit.column ?? column) === column;
}

function GridCell({ drawn, row, column, spans }: RowProps & { column: number }) {
  const { sheet, book, lit, onSpot, stop } = drawn;
  const value = sheet.values[row]?.[column] ?? Number.NaN;
  const isChanged = book.isChanged(row, column);
  const isLit = litAt(lit, row, column);
  const look = [isChanged && "is-changed", isLit && "is-lit"];
  if (sheet.hides?.(row, column)) {
    return (
      <td
        class="learn-hidden"
        data-part="hidden-cell"
        data-value={String(value)}
        title={say("cell.hidden")}
      >
        {value === 0 ? HIDDEN : figure(value)}
      </td>
    );
  }
  return (
    <td class={look.filter(Boolean).join(" ")} onPointerEnter={() => onSpot?.(row, column)}>
      <Cell
        matrix={sheet.name}
        row={row}
        column={column}
        label={cellName(sheet, row, column)}
        value={value}
        places={drawn.places}
        isChanged={isChanged}
        isTabStop={isStop(stop.value, row, column, spans)}
        put={(next) => book.put(row, column, next)}
        complain={drawn.complain}
        reached={() => {
          stop.value = [row, column];
          onSpot?.(row, column);
        }}
      />
      {isChanged && <PutBack reset={() => book.put(row, column, undefined)} />}
    </td>
  );
}

/** The one cell that Tab reaches: the last one used, or the first there is where it is not drawn. */
function isStop(
  [row, column]: readonly [number, number],
  r: number,
  c: number,
  { rows, columns }: RowProps["spans"],
): boolean {
  const down = row >= rows.first && row < rows.last ? row : rows.first;
  const right = column >= columns.first && column < columns.last ? column : columns.first;
  return r === down && c === right;
}
