import { go, linkTo, type Place, place } from "../shell/address";
import { HelpButton } from "../shell/Help";
import { useKeys } from "../shell/keys";
import { switchTheme, theme } from "../shell/theme";
import type { Listing, Overview } from "../source/answers";
import type { Where } from "../source/source";
import { legible } from "./head/spelling";
import { modelName } from "./modelName";
import { PromptPicker } from "./PromptPicker";
import {
  comparingPlace,
  findingsPlace,
  headPlace,
  otherOf,
  overviewPlace,
  rowOf,
  rowPlace,
  trainingPlace,
  type View,
  viewOf,
} from "./places";

/** Which tabs there are. */
interface TabsThere {
  readonly ofHeads: boolean;
  readonly ofTraining: boolean;
}

interface Props {
  readonly where: Where;
  readonly listings: readonly Listing[];
  readonly overview: Overview | undefined;
  readonly tabs: TabsThere;
  readonly view: View;
}

/** Which recording this is, and the ways through it. */
export function RoomHeader({ where, listings, overview, tabs, view }: Props) {
  const listing = overview ?? listings[where.recording];
  useKeys("Ways", [
    ...(tabs.ofHeads
      ? [
          { key: "1", does: "overview", run: () => go(overviewPlace(where)) },
          { key: "2", does: "findings", run: () => go(findingsPlace(where)) },
          { key: "3", does: "compare", run: () => go(comparingPlace(where)) },
        ]
      : []),
    ...(tabs.ofTraining
      ? [{ key: "4", does: "training", run: () => go(trainingPlace(where)) }]
      : []),
  ]);
  return (
    <header class="room-header">
      <div class="room-who">
        <strong class="room-name" data-part="recording-name" title={listing?.name}>
          {legible(listing?.name ?? "…")}
        </strong>
        <span class="soft room-model" data-part="model-name" title={modelName(listing)}>
          {legible(modelName(listing))}
        </span>
        {listing?.live && (
          <span class="room-live" data-part="live-badge">
            live
          </span>
        )}
      </div>
      <div class="room-tools">
        <PromptPicker where={where} listings={listings} overview={overview} />
        <ThemeButton />
        <HelpButton />
      </div>
      <Tabs where={where} view={view} there={tabs} />
      <Crumbs where={where} />
    </header>
  );
}

function ThemeButton() {
  const other = theme.value === "dark" ? "light" : "dark";
  return (
    <button type="button" class="quiet" title={`${other} (d)`} onClick={switchTheme}>
      <span aria-hidden="true">{theme.value === "dark" ? "☀" : "☾"}</span>
      <span class="unseen">Switch to {other}</span>
    </button>
  );
}

interface TabsProps {
  readonly where: Where;
  readonly view: View;
  readonly there: TabsThere;
}

function Tabs({ where, view, there }: TabsProps) {
  const other = otherOf(place.value);
  const comparing = view === "compare" && other ? place.value : comparingPlace(where);
  const training: readonly [View, string, Place][] = [
    ["training", "Training", view === "training" ? place.value : trainingPlace(where)],
  ];
  const ofHeads: readonly [View, string, Place][] = [
    ["overview", "Overview", overviewPlace(where)],
    ["findings", "Findings", findingsPlace(where)],
    ["compare", "Compare", comparing],
  ];
  const tabs = [...(there.ofHeads ? ofHeads : []), ...(there.ofTraining ? training : [])];
  return (
    <nav class="room-tabs" aria-label="Views" data-part="tabs">
      {tabs.map(([name, text, to]) => (
        <a key={name} href={linkTo(to)} {...(view === name ? { "aria-current": "page" } : {})}>
          {text}
        </a>
      ))}
    </nav>
  );
}

/** Overview › L17H3 › row 671, where one is deeper than the tabs. */
function Crumbs({ where }: { where: Where }) {
  const view = viewOf(place.value);
  const head = place.value.head;
  if ((view !== "head" && view !== "row") || !head) return null;
  const row = rowOf(place.value);
  return (
    <nav class="room-crumbs" aria-label="Where you are" data-part="crumbs">
      <a href={linkTo(overviewPlace(where))}>Overview</a>
      <span aria-hidden="true">›</span>
      <a
        href={linkTo(headPlace(where, head))}
        {...(view === "head" ? { "aria-current": "page" } : {})}
      >
        {head}
      </a>
      {view === "row" && (
        <>
          <span aria-hidden="true">›</span>
          <a href={linkTo(rowPlace(where, head, row))} aria-current="page">
            row {row}
          </a>
        </>
      )}
    </nav>
  );
}
