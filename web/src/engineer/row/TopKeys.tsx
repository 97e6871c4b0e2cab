import { Figure } from "../../parts/Figure";
import { Term } from "../Glossary";
import { shortened, spelledIfKnown } from "../head/spelling";
import { Weight } from "../head/Weight";
import type { Row } from "./rowAnswers";

const FEW = 0.01; // below it three decimals tell too little

interface Props {
  readonly row: Row;
  readonly looked: number | null;
  readonly onLook: (key: number) => void;
  /** Where a token's own row is; null where it has none. */
  readonly rowOf: (key: number) => string | null;
}

/** The heaviest keys in numbers: what the arcs show. */
export function TopKeys({ row, looked, onLook, rowOf }: Props) {
  let together = 0;
  const sums = row.top.map(({ weight }) => {
    together += weight;
    return together;
  });
  return (
    <section class="row-top">
      <h2>Heaviest keys</h2>
      <div class="scroll">
        <table data-part="top">
          <caption class="unseen">The {row.top.length} heaviest keys of the row</caption>
          <thead>
            <tr>
              <th scope="col">key</th>
              <th scope="col" class="word">
                token
              </th>
              <th scope="col">weight</th>
              <th scope="col">together</th>
              <th scope="col">
                <Term name="× even share" />
              </th>
            </tr>
          </thead>
          <tbody>
            {row.top.map(({ key }, n) => (
              <tr key={key} data-key={key} aria-current={key === looked ? "true" : undefined}>
                <KeyCells row={row} n={n} together={sums[n] ?? 0} {...{ onLook, rowOf }} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface CellsProps {
  readonly row: Row;
  /** Its rank. */
  readonly n: number;
  readonly together: number;
  readonly onLook: (key: number) => void;
  readonly rowOf: (key: number) => string | null;
}

function KeyCells({ row, n, together, onLook, rowOf }: CellsProps) {
  const { key, weight } = row.top[n] ?? { key: 0, weight: Number.NaN };
  const token = shortened(spelledIfKnown(row.facts.top[n]?.token), 16);
  const to = rowOf(key);
  return (
    <>
      <th scope="row">
        <button type="button" class="quiet" onClick={() => onLook(key)}>
          {key}
        </button>
      </th>
      <td class="word">{to === null ? token : <a href={to}>{token}</a>}</td>
      <td data-part="top-weight" data-value={String(weight)}>
        <Weight value={weight} />
      </td>
      <td>
        <Figure value={together} places={together < FEW ? 4 : 3} />
      </td>
      <td>
        <Figure value={weight * row.shading.visible} places={1} />
      </td>
    </>
  );
}
