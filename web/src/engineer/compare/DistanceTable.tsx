import { useState } from "preact/hooks";
import { count } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { linkTo, place } from "../../shell/address";
import type { Comparison, HeadDifference } from "../../source/answers";

const FIRST = 20;

/** Every head, the farthest apart first. */
export function DistanceTable({ found, chosen }: { found: Comparison; chosen: string }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? found.heads : found.heads.slice(0, FIRST);
  return (
    <div>
      <div class="scroll comp-table">
        <table data-part="distance-table">
          <caption class="unseen">Heads by distance, the farthest apart first</caption>
          <thead>
            <tr>
              <th scope="col">head</th>
              <th scope="col">distance</th>
              <th scope="col">by</th>
              <th scope="col">worst row</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((one) => (
              <tr key={one.label} data-head={one.label} aria-selected={one.label === chosen}>
                <th scope="row">
                  <a href={linkTo({ ...place.value, head: one.label })}>{one.label}</a>
                </th>
                <td>
                  <Figure value={one.distance ?? Number.NaN} />
                </td>
                <td class="soft">{one.how === "rows" ? `${count(one.rows)} rows` : one.how}</td>
                <td>
                  <Worst one={one} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length < found.heads.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show all {count(found.heads.length)}
        </button>
      )}
    </div>
  );
}

function Worst({ one }: { one: HeadDifference }) {
  if (!one.worst_rows) return "—";
  const [a, b] = one.worst_rows;
  return (
    <>
      <span class="soft">{a === b ? a : `${a} and ${b}`}</span>{" "}
      <Figure value={one.worst_distance ?? Number.NaN} />
    </>
  );
}
