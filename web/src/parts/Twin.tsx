import type { ComponentChildren } from "preact";

interface Props {
  readonly caption: string;
  /** What opens it, where the page is not in English. */
  readonly summary?: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly ComponentChildren[])[];
}

/** The table that says in words and numbers what a picture beside it shows. */
export function Twin({ caption, summary, columns, rows }: Props) {
  return (
    <details class="twin">
      <summary>{summary ?? `${caption} as a table`}</summary>
      <div class="scroll">
        <table>
          <caption class="unseen">{caption}</caption>
          <thead>
            <tr>
              {columns.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, r) => (
              <tr key={r}>
                {row.map((cell, c) =>
                  c === 0 ? (
                    <th key={c} scope="row">
                      {cell}
                    </th>
                  ) : (
                    <td key={c}>{cell}</td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
