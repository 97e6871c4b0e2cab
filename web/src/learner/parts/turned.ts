import { transpose } from "../../maths/matrix";
import type { Book, Sheet } from "./sheets";

// A matrix as it is multiplied in Q Kᵀ: its rows stand as columns. What is changed there is changed
// in the matrix itself.

export function turnedSheet(sheet: Sheet): Sheet {
  const { hides } = sheet;
  return {
    ...sheet,
    title: `${sheet.title}ᵀ`,
    values: transpose(sheet.values),
    rows: sheet.columns,
    columns: sheet.rows,
    ...(hides && { hides: (row: number, column: number) => hides(column, row) }),
  };
}

export function turnedBook(book: Book): Book {
  return {
    isChanged: (row, column) => book.isChanged(column, row),
    put: (row, column, value) => book.put(column, row, value),
  };
}
