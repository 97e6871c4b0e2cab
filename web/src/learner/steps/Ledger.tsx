import { placesOf } from "../../maths/format";
import type { Vector } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { say } from "../language";
import { RowVector } from "../parts/RowVector";
import { rowKeys, sumOf } from "../parts/spelling";
import type { LessonState } from "../state";

/** weight × value = term, one line per key, and their sum. */
export function Ledger({ state }: { state: LessonState }) {
  const row = state.focus.value;
  const { masked, weights, values, context } = state.worksOn.value;
  const shares = weights[row] ?? [];
  const { kept, rest } = rowKeys(masked[row] ?? [], shares, row);
  const term = (j: number): Vector => (values[j] ?? []).map((v) => v * (shares[j] ?? 0));
  const others = (values[0] ?? []).map((_, d) => sumOf(rest.map((j) => term(j)[d] ?? 0)));
  const places = {
    value: placesOf(kept.flatMap((j) => values[j] ?? [])),
    term: placesOf([...kept.flatMap(term), ...(context[row] ?? [])]),
  };
  return (
    <div class="scroll" data-part="ledger">
      <table class="learn-table">
        <thead>
          <tr>
            <th scope="col">{say("symbol.key")}</th>
            <th scope="col">{say("symbol.weight")}</th>
            <th scope="col">{say("sum.times_value")}</th>
            <th scope="col">{say("sum.term")}</th>
          </tr>
        </thead>
        <tbody>
          {kept.map((j) => (
            <tr key={j}>
              <th scope="row">{state.lesson.labels[j]}</th>
              <td>
                <Figure value={shares[j] ?? 0} class="weight" />
              </td>
              <td>
                <RowVector values={values[j] ?? []} tone="v" places={places.value} />
              </td>
              <td>
                <RowVector values={term(j)} places={places.term} />
              </td>
            </tr>
          ))}
          {rest.length > 0 && (
            <tr class="soft">
              <th scope="row">{say("count.others", { count: rest.length })}</th>
              <td>
                <Figure value={sumOf(rest.map((j) => shares[j] ?? 0))} />
              </td>
              <td />
              <td>
                <RowVector values={others} places={places.term} />
              </td>
            </tr>
          )}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">{say("symbol.sum")}</th>
            <td>
              <Figure value={sumOf(shares)} class="weight" />
            </td>
            <td />
            <td data-part="output-row">
              <RowVector values={context[row] ?? []} tone="role-output" places={places.term} />
            </td>
          </tr>
        </tfoot>
      </table>
    </div>
  );
}
