import type { Vector } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { listed, say } from "../language";
import { EditableNumber } from "../parts/EditableNumber";
import { headSheet } from "../parts/sheets";
import { rowKeys, shiftOf, sumOf } from "../parts/spelling";
import type { LessonState } from "../state";

/** score → power → share for every key of the chosen row. */
export function ShareTable({ state }: { state: LessonState }) {
  const row = state.focus.value;
  const head = state.worksOn.value;
  const [scores, weights] = [head.masked[row] ?? [], head.weights[row] ?? []];
  const { kept, rest, hidden } = rowKeys(scores, weights, row);
  const shift = shiftOf(scores);
  const powers = scores.map((score) => Math.exp(score - shift));
  const total = sumOf(powers);
  const ofRest = (values: Vector) => sumOf(rest.map((j) => values[j] ?? 0));
  const names = hidden.map((j) => state.lesson.labels[j] ?? "");
  return (
    <>
      <div class="scroll" data-part="share-table">
        <table class="learn-table">
          <Columns power={shift ? say("softmax.power_shifted") : say("softmax.power")} />
          <tbody>
            {kept.map((j) => (
              <ShareRow key={j} state={state} row={row} column={j} total={total} shift={shift} />
            ))}
            {rest.length > 0 && (
              <SumRow
                name={say("count.others", { count: rest.length })}
                power={ofRest(powers)}
                weight={ofRest(weights)}
              />
            )}
          </tbody>
          <tfoot>
            <SumRow name={say("symbol.sum")} power={total} weight={sumOf(weights)} />
          </tfoot>
        </table>
      </div>
      {hidden.length > 0 && <p class="soft">{say("softmax.hidden", { names: listed(names) })}</p>}
      {shift !== 0 && <p class="soft">{say("softmax.shifted")}</p>}
    </>
  );
}

function Columns({ power }: { power: string }) {
  return (
    <thead>
      <tr>
        <th scope="col">{say("symbol.key")}</th>
        <th scope="col">{say("symbol.score")}</th>
        <th scope="col">{power}</th>
        <th scope="col" class="learn-quotient">
          {say("softmax.by_sum")}
        </th>
        <th scope="col">{say("symbol.weight")}</th>
        <th scope="col" class="learn-wide" />
      </tr>
    </thead>
  );
}

/** Several keys in one line. */
function SumRow({ name, power, weight }: { name: string; power: number; weight: number }) {
  return (
    <tr data-part="share-sum">
      <th scope="row">{name}</th>
      <td />
      <td>
        <Figure value={power} />
      </td>
      <td class="learn-quotient" />
      <td>
        <Figure value={weight} class="weight" />
      </td>
      <td />
    </tr>
  );
}

interface RowProps {
  readonly state: LessonState;
  readonly row: number;
  readonly column: number;
  readonly total: number;
  readonly shift: number;
}

function ShareRow({ state, row, column, total, shift }: RowProps) {
  const head = state.worksOn.value;
  const [score, weight] = [head.masked[row]?.[column] ?? 0, head.weights[row]?.[column] ?? 0];
  const at = { state, row, column, isTurned: true };
  return (
    <tr>
      <th scope="row">{state.lesson.labels[column]}</th>
      <EditableNumber {...at} sheet={headSheet(state, "masked")} />
      <td>
        <Figure value={Math.exp(score - shift)} />
      </td>
      <td class="soft learn-quotient">
        / <Figure value={total} />
      </td>
      <EditableNumber {...at} sheet={headSheet(state, "weights")} />
      <td class="learn-wide">
        <ShareBar share={weight} />
      </td>
    </tr>
  );
}

function ShareBar({ share }: { share: number }) {
  return (
    <span class="learn-share" aria-hidden="true">
      <i style={{ width: `${Math.min(Math.max(share, 0), 1) * 100}%` }} />
    </span>
  );
}
