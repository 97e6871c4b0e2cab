import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { dot } from "../../maths/matrix";
import type { LessonState } from "../state";
import { Grid } from "./Grid";
import { Explanation, Products } from "./Products";
import { bookOf, columnOf, rowOf, type Sheet } from "./sheets";
import { Tidy } from "./Tidy";
import { With } from "./With";

interface Props {
  readonly state: LessonState;
  readonly left: Sheet;
  readonly right: Sheet;
  readonly result: Sheet;
  /** Which line of the right matrix takes part: its column, or its row (a transpose). */
  readonly by: "column" | "row";
  readonly onSpot?: (row: number, column: number) => void;
}

/** left × right = result, where any number of the result shows the products it is made of. */
export function Product({ state, left, right, result, by, onSpot }: Props) {
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
  return (
    <div class="learn-product" data-part="product" data-result={result.name}>
      <div class="learn-factors">
        {grid(left, { lit: { row }, mark: focus })}
        <With sign="×">{grid(right, { lit: by === "column" ? { column } : { row: column } })}</With>
        <With sign="=">{grid(result, { lit: { row, column }, mark: focus, onSpot: see })}</With>
      </div>
      <Sum left={left} right={right} result={result} by={by} row={row} column={column} />
    </div>
  );
}

interface SumProps extends Pick<Props, "left" | "right" | "result" | "by"> {
  readonly row: number;
  readonly column: number;
}

/** One number of the result, spelt out; where it was changed by hand, both numbers. */
function Sum({ left, right, result, by, row, column }: SumProps) {
  const a = rowOf(left, row);
  const b = by === "column" ? columnOf(right, column) : rowOf(right, column);
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
          , changed by hand to <Tidy value={shown} />
        </span>
      )}
    </Explanation>
  );
}
