import { useSignal } from "@preact/signals";
import { cellKey } from "../../maths/lesson";
import { dot, type Matrix, map } from "../../maths/matrix";
import { softmax } from "../../maths/softmax";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
import { Grid } from "../parts/Grid";
import { RowVector } from "../parts/RowVector";
import type { Sheet } from "../parts/sheets";
import { dims } from "../parts/spelling";
import { turnedBook, turnedSheet } from "../parts/turned";
import { With } from "../parts/With";

const QUERY: Matrix = [[2, 3, 4, 1]];
const KEYS: Matrix = [
  [1, 0, 1, 0],
  [0, 1, 0, 1],
];
const PLACES = ["1", "2", "3", "4"]; // k1 and k2 are the keys themselves here

/** A matrix of its own, beside the lesson's. */
function useOwnMatrix(sheet: Omit<Sheet, "values" | "columns">, computed: Matrix) {
  const changes = useSignal<ReadonlyMap<string, number>>(new Map());
  const values = map(computed, (value, r, c) => changes.value.get(cellKey(r, c)) ?? value);
  const columns = dims(sheet.role, computed[0]?.length ?? 0);
  const book = {
    isChanged: (r: number, c: number) => changes.value.has(cellKey(r, c)),
    put: (r: number, c: number, value: number | undefined) => {
      const next = new Map(changes.value);
      if (value === undefined) next.delete(cellKey(r, c));
      else next.set(cellKey(r, c), value);
      changes.value = next;
    },
  };
  return { sheet: { ...sheet, values, columns }, book };
}

/** The first note's [6 4]: what dividing does to one row, and what it does not show. */
export function NotesExample() {
  const query = useOwnMatrix({ name: "note.q", title: "Q", role: "q", rows: ["q"] }, QUERY);
  const keys = useOwnMatrix({ name: "note.k", title: "K", role: "k", rows: ["k1", "k2"] }, KEYS);
  const q = query.sheet.values[0] ?? [];
  const raw = keys.sheet.values.map((key) => dot(q, key));
  const root = Math.sqrt(q.length);
  return (
    <section data-part="notes-example">
      <h3>{say("scaling.note_title")}</h3>
      <div class="learn-factors">
        <Grid {...query} />
        <With sign="×">
          <Grid sheet={{ ...turnedSheet(keys.sheet), rows: PLACES }} book={turnedBook(keys.book)} />
        </With>
      </div>
      <Rows raw={raw} root={root} />
      <p>
        <Say name="scaling.note" />
      </p>
    </section>
  );
}

function Rows({ raw, root }: { raw: readonly number[]; root: number }) {
  const rows = [
    { words: say("scaling.raw"), divisor: 1 },
    { words: "÷ √d_k", divisor: root },
  ];
  return (
    <div class="scroll">
      <table class="learn-table">
        <thead>
          <tr>
            <th scope="col" />
            <th scope="col">{say("symbol.scores")}</th>
            <th scope="col">softmax</th>
            <th scope="col">{say("symbol.gradient")}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ words, divisor }) => {
            const given = raw.map((score) => score / divisor);
            const weights = softmax(given);
            const p = weights[0] ?? 0;
            return (
              <tr key={divisor} data-part="notes-row">
                <th scope="row">{words}</th>
                <td>
                  <RowVector values={given} />
                </td>
                <td>
                  <RowVector values={weights} tone="weight" />
                </td>
                <td>
                  <Figure value={(p * (1 - p)) / divisor} places={3} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
