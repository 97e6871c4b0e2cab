import { useState } from "preact/hooks";
import { count } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { linkTo } from "../../shell/address";
import type { Overview, Scale } from "../../source/answers";
import type { Where } from "../../source/source";
import { headPlace } from "../places";
import type { Choice } from "./choice";
import { barOf, ranked, scaleOf } from "./statistics";

const FIRST = 60;

interface Props {
  readonly overview: Overview;
  readonly where: Where;
  readonly choice: Choice;
  /** Labels of the heads that a filter lets through; null for all. */
  readonly among: ReadonlySet<string> | null;
}

function barStyle(value: number, scale: Scale) {
  const { left, width } = barOf(value, scale);
  return { marginLeft: `${100 * left}%`, width: `${100 * width}%` };
}

/** Heads in order of a statistic. */
export function RankedList({ overview, where, choice, among }: Props) {
  const [isWhole, setWhole] = useState(false);
  const found = ranked(overview, choice.statistic, choice.order).filter(
    (one) => among === null || among.has(one.label),
  );
  const scale = scaleOf(choice.statistic, overview);
  const shown = isWhole ? found : found.slice(0, FIRST);
  if (!found.length) return <p class="soft">This is not known for any head here.</p>;
  return (
    <>
      <ol class="over-ranked" data-part="ranked">
        {shown.map((one) => (
          <li key={one.label}>
            <a href={linkTo(headPlace(where, one.label))}>{one.label}</a>
            <span class="over-bar" aria-hidden="true">
              <span style={barStyle(one.value, scale)} />
            </span>
            <Figure value={one.value} />
          </li>
        ))}
      </ol>
      {shown.length < found.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show all {count(found.length)}
        </button>
      )}
    </>
  );
}
