import { Figure } from "../../parts/Figure";
import { linkTo } from "../../shell/address";
import type {
  Compared,
  Comparison,
  HeadDifference,
  HeadShort,
  Overview,
} from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { useAnswer } from "../answer";
import { shortened, spelled } from "../head/spelling";
import { HeadPicture } from "../overview/HeadPicture";
import { headPlace, rowPlace } from "../places";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly other: Where;
  readonly overview: Overview;
  readonly found: Comparison;
  readonly chosen: HeadDifference;
}

const LETTERS = 24;

/** One head of both, beside each other. */
export function SideBySide({ source, where, other, overview, found, chosen }: Props) {
  const head = overview.heads.find((one) => one.label === chosen.label);
  const [a, b] = chosen.worst_rows ?? [null, null];
  const side = { source, overview, head };
  return (
    <div class="card comp-sides" data-part="side-by-side" data-head={chosen.label}>
      <h2>
        {chosen.label} <span class="soft">distance</span>{" "}
        <Figure value={chosen.distance ?? Number.NaN} />
      </h2>
      <div class="comp-pair">
        <Side {...side} where={where} about={found.a} row={a} />
        <Side {...side} where={other} about={found.b} row={b} />
      </div>
      <p class="soft">{inWords(chosen)}</p>
    </div>
  );
}

function inWords(chosen: HeadDifference): string {
  if (chosen.how === "nothing") return "There is nothing that both have stored of this head.";
  if (chosen.how === "profiles") {
    return "Compared by stored profiles, summed over rows: they can agree where rows do not.";
  }
  if (chosen.distance === 0) return `Compared over ${chosen.rows} rows: all of them are equal.`;
  const token =
    chosen.worst_token === null ? "" : `, of “${shortened(spelled(chosen.worst_token), LETTERS)}”,`;
  return `Compared over ${chosen.rows} rows; the two farthest apart${token} are named above.`;
}

interface SideProps {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
  readonly about: Compared;
  readonly head: HeadShort | undefined;
  readonly row: number | null;
}

const SIZE = 168;

function Side({ source, where, overview, about, head, row }: SideProps) {
  const answer = useAnswer(
    (stop) => source.thumbnails(where, head?.stack ?? "", stop),
    [source, where.recording, where.prompt, head?.stack],
    true,
  );
  if (!head) return null;
  const name = about.name + (about.prompt ? `, prompt ${about.prompt}` : "");
  return (
    <figure>
      <a href={linkTo(headPlace(where, head.label))}>
        {answer.state === "here" && (
          <HeadPicture
            given={answer.value}
            cell={head}
            scale={overview.scale}
            size={SIZE}
            label={`${head.label} of ${name}`}
          />
        )}
        <span>{name}</span>
      </a>
      {row !== null && <a href={linkTo(rowPlace(where, head.label, row))}>row {row}</a>}
    </figure>
  );
}
