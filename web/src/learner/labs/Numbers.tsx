import { placesOf } from "../../maths/format";
import type { Matrix, Vector } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";

interface Props {
  readonly title: string;
  readonly values: Matrix;
  /** Colour by role: q, k, v, weight; none for the rest. */
  readonly hue?: string;
  readonly rows?: readonly string[];
  readonly columns?: readonly string[];
  readonly part?: string;
}

/** A matrix to read. */
export function Numbers({ title, values, hue = "", rows, columns, part }: Props) {
  const places = placesOf(values.flat());
  return (
    <figure class="lab-numbers" data-part={part}>
      <figcaption class={hue}>{title}</figcaption>
      <div class="scroll">
        <table>
          {columns && (
            <thead>
              <tr>
                {rows && <td />}
                {columns.map((name, c) => (
                  <th key={c} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
          )}
          <tbody>
            {values.map((row, r) => (
              <tr key={r}>
                {rows && <th scope="row">{rows[r]}</th>}
                {row.map((value, c) => (
                  <td key={c}>
                    <Figure value={value} places={places} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

/** [0.5 1 0.25], each number to be read on its own. */
export function RowOf({ values, class: name }: { values: Vector; class?: string }) {
  const places = placesOf(values);
  return (
    <span class={`lab-row ${name ?? ""}`}>
      {values.map((value, c) => (
        <Figure key={c} value={value} places={places} />
      ))}
    </span>
  );
}
