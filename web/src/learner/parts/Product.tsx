import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { dot } from "../../maths/matrix";
import { Say } from "../language";
import type { LessonState } from "../state";
import { Grid } from "./Grid";
import { Explanation, Products } from "./Products";
import { bookOf, columnOf, rowOf, type Sheet } from "./sheets";
import { Tidy } from "./Tidy";
import { turnedBook, turnedSheet } from "./turned";
import { With } from "./With";

interface Props {
  readonly state: LessonState;
  readonly left: Sheet;
  readonly right: Sheet;
  readonly result: Sheet;
  /** Whether the right matrix is multiplied turned, as K in Q Kᵀ. */
  readonly isTurned?: boolean;
  readonly onSpot?: (row: number, column: number) => void;
}

/** left × right (or rightᵀ) = result, where any number of the result shows the products it is made of. */
export function Product({ state, left, right, result, isTurned, onSpot }: Props) {
  const focus = state.focus.value;
  const spot = useSignal({ row: focus, column: 0 });
  useEffect(() => {
    spot.value = { row: focus, column: spot.peek().column };
  }, [focus]);
  const { row, column } = spot.value;
  const see = (r: number, c: number) => {
    spot.value = { row: r, column: c };
    onSpot?.(r, c);
  };
  const grid = (sheet: Sheet, more: object) => (
    <Grid sheet={sheet} book={bookOf(state, sheet)} {...more} />
  );
  const factor = isTurned ? turnedSheet(right) : right;
  const book = isTurned ? turnedBook(bookOf(state, right)) : bookOf(state, right);
  return (
    <div class="learn-product" data-part="product" data-result={result.name}>
      <div class="learn-factors">
        {grid(left, { lit: { row }, mark: focus })}
        <With sign="×">
          <Grid sheet={factor} book={book} lit={{ column }} />
        </With>
        <With sign="=">{grid(result, { lit: { row, column }, mark: focus, onSpot: see })}</With>
      </div>
      <Sum left={left} right={factor} result={result} row={row} column={column} />
    </div>
  );
}

interface SumProps extends Pick<Props, "left" | "right" | "result"> {
  readonly row: number;
  readonly column: number;
}

/** One number of the result, spelt out; where it was changed by hand, both numbers. */
function Sum({ left, right, result, row, column }: SumProps) {
  const a = rowOf(left, row);
  const b = columnOf(right, column);
  const computed = dot(a, b);
  const shown = result.values[row]?.[column] ?? Number.NaN;
  const isChanged = Math.abs(computed - shown) > 1e-9 * Math.max(1, Math.abs(computed));
  return (
    <Explanation>
      <span class="soft">
        {result.rows[row]}, {result.columns[column]}:{" "}
      </span>
      <Products
        left={{ values: a, tone: `role-${left.role}` }}
        right={{ values: b, tone: `role-${right.role}` }}
      />
      {" = "}
      <Tidy value={computed} class={`role-${result.role}`} />
      {isChanged && (
        <span class="learn-changed-note">
          <Say name="cell.changed_to" with={{ value: <Tidy value={shown} /> }} />
        </span>
      )}
    </Explanation>
  );
}
