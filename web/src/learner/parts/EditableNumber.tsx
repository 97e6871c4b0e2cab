import { useSignal } from "@preact/signals";
import { type Phrase, sayPhrase } from "../language";
import type { LessonState } from "../state";
import { Cell, PutBack } from "./Cell";
import { bookOf, cellName, type Sheet } from "./sheets";

interface Props {
  readonly state: LessonState;
  readonly sheet: Sheet;
  readonly row: number;
  readonly column: number;
  readonly isTurned?: boolean;
}

/** One number of a matrix as a table's cell, to be changed where it is read. */
export function EditableNumber({ state, sheet, row, column, isTurned = false }: Props) {
  const problem = useSignal<Phrase | null>(null);
  const book = bookOf(state, sheet);
  const isChanged = book.isChanged(row, column);
  return (
    <td class={`learn-editable role-${sheet.role} ${isChanged ? "is-changed" : ""}`}>
      <Cell
        matrix={sheet.name}
        row={row}
        column={column}
        label={cellName(sheet, row, column)}
        value={sheet.values[row]?.[column] ?? Number.NaN}
        places={4}
        isChanged={isChanged}
        isTabStop
        isTurned={isTurned}
        put={(value) => book.put(row, column, value)}
        complain={(why) => {
          problem.value = why;
        }}
        reached={() => {}}
      />
      {isChanged && <PutBack reset={() => book.put(row, column, undefined)} />}
      {problem.value && (
        <span class="learn-problem" role="alert" data-part="problem">
          {sayPhrase(problem.value)}
        </span>
      )}
    </td>
  );
}
