import { count } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { isBroken } from "../../source/binary";
import { shortened, spelledIfKnown } from "../head/spelling";
import type { TokenBook } from "../head/tokenBook";
import { Weight as ExactWeight } from "../head/Weight";
import { weightAt } from "./Chunk";
import { massWords } from "./Cumulative";
import type { Row } from "./rowAnswers";

const MOST_LETTERS = 60; // of a token

interface Props {
  readonly row: Row;
  readonly looked: number | null;
  readonly book: TokenBook;
}

/** The key that is pointed at, exactly. */
export function RowReadout({ row, looked, book }: Props) {
  book.news.value;
  if (looked === null) {
    return (
      <p class="row-readout soft" data-part="readout">
        Point at a token to read its weight; Shift and ← → go from token to token.
      </p>
    );
  }
  const weight = weightAt(row.shading, looked);
  return (
    <p class="row-readout" data-part="readout" aria-live="polite">
      <span class="k" data-part="readout-key" data-value={String(looked)}>
        key {looked}
      </span>{" "}
      <b>{shortened(spelledIfKnown(book.text(looked)), MOST_LETTERS)}</b>{" "}
      <span data-part="readout-weight" data-value={String(weight)}>
        <Weight weight={weight} visible={row.shading.visible} />
      </span>
    </p>
  );
}

function Weight({ weight, visible }: { weight: number | undefined; visible: number }) {
  if (weight === undefined) return <span class="soft">not among the keys that were kept</span>;
  if (Number.isNaN(weight)) return <span class="soft">hidden from this row</span>;
  if (isBroken(weight)) return <span class="soft">no number (NaN)</span>;
  return (
    <>
      <ExactWeight value={weight} />{" "}
      <span class="soft">
        <Figure value={weight * visible} places={2} /> × even share
      </span>
    </>
  );
}

/** The row in a line of numbers. */
export function RowNumbers({ row }: { row: Row }) {
  const peak = row.top[0]?.weight;
  const broken = row.mass?.broken ?? 0;
  const entropy = broken ? null : (row.mass?.entropy ?? null);
  return (
    <p class="row-numbers">
      <span>
        sees{" "}
        <b data-part="row-visible" data-value={String(row.facts.visible)}>
          {count(row.facts.visible ?? 0)}
        </b>{" "}
        keys
      </span>
      {peak !== undefined && (
        <span>
          peak{" "}
          <b data-part="row-peak">
            <ExactWeight value={peak} />
          </b>
        </span>
      )}
      {entropy !== null && (
        <span>
          entropy{" "}
          <b data-part="row-entropy">
            <Figure value={entropy} />
          </b>{" "}
          nats
        </span>
      )}
      {broken > 0 && (
        <span data-part="row-broken">
          {count(broken)} of their weights {broken === 1 ? "is no number" : "are no numbers"} (NaN),
          so what follows from all of them is not known
        </span>
      )}
      {row.mass && !broken && <span data-part="row-mass-words">{massWords(row.mass)}</span>}
      {row.mass && !broken && row.mass.total < 0.999 && (
        <span>
          weights sum to <Figure value={row.mass.total} />
        </span>
      )}
    </p>
  );
}
