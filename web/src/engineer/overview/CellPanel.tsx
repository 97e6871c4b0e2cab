import { Figure } from "../../parts/Figure";
import { linkTo } from "../../shell/address";
import type { HeadShort, Overview, Stack } from "../../source/answers";
import type { Thumbnails } from "../../source/binary";
import { SAMPLED_PICTURE } from "../../source/binary";
import type { Where } from "../../source/source";
import { headPlace } from "../places";
import type { Cell } from "./gridLayout";
import { HeadPicture } from "./HeadPicture";
import { titleOf, valueAt } from "./statistics";

interface Props {
  readonly cell: Cell;
  readonly head: HeadShort | undefined;
  readonly where: Where;
  readonly absent: string;
  readonly statistic: string;
  readonly stack: Stack;
  readonly thumbnails: Thumbnails | undefined;
  readonly overview: Overview;
}

const LARGE = 224;
const SMALL = 96;

/** The head that is meant, with every number of it. */
export function CellPanel(props: Props) {
  const { cell, head, where, statistic, stack, thumbnails, overview } = props;
  const names = Object.keys(overview.statistics);
  const isKnown = names.some((one) => !Number.isNaN(valueAt(stack, one, cell.layer, cell.head)));
  return (
    <aside class="grid-panel" data-part="grid-panel">
      <div class="panel-top">
        <strong>{head?.label ?? `L${cell.layer}H${cell.head}`}</strong>
        {head && <a href={linkTo(headPlace(where, head.label))}>open</a>}
      </div>
      {head && thumbnails && (
        <HeadPicture
          given={thumbnails}
          {...{ cell }}
          scale={overview.scale}
          size={LARGE}
          label={head.label}
        />
      )}
      <Standing {...props} />
      {isKnown && (
        <dl class="panel-numbers">
          {Object.entries(overview.statistics).map(([name, { words }]) => (
            <div key={name} title={words} data-chosen={name === statistic}>
              <dt>{titleOf(overview, name)}</dt>
              <dd>
                <Figure value={valueAt(stack, name, cell.layer, cell.head)} />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </aside>
  );
}

/** The same in short, where there is no room for more. */
export function CellTip(props: Props) {
  const { cell, head, statistic, stack, thumbnails, overview } = props;
  const value = valueAt(stack, statistic, cell.layer, cell.head);
  return (
    <>
      {head && thumbnails && (
        <HeadPicture
          given={thumbnails}
          {...{ cell }}
          scale={overview.scale}
          size={SMALL}
          label={head.label}
        />
      )}
      <div class="tip-words">
        <strong>{head?.label ?? `L${cell.layer}H${cell.head}`}</strong>
        {!Number.isNaN(value) && (
          <span>
            <Figure value={value} />{" "}
            <span class="soft">{overview.statistics[statistic]?.words ?? statistic}</span>
          </span>
        )}
        <Standing {...props} />
      </div>
    </>
  );
}

function Standing({ cell, head, absent, thumbnails }: Props) {
  if (!head) return <span class="soft">{absent}</span>;
  const kind = thumbnails?.kinds[cell.layer * thumbnails.heads + cell.head];
  return (
    <span class="soft">
      {head.exact ? "zooms to single weights" : "stored summaries only"}
      {kind === SAMPLED_PICTURE && "; picture of some rows"}
    </span>
  );
}
