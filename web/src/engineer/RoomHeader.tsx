import { go, linkTo, place } from "../shell/address";
import { HelpButton } from "../shell/Help";
import { useKeys } from "../shell/keys";
import { switchTheme, theme } from "../shell/theme";
import type { Listing, Overview } from "../source/answers";
import type { Where } from "../source/source";
import { GlossaryButton } from "./Glossary";
import { legible } from "./head/spelling";
import { modelName } from "./modelName";
import { PromptPicker } from "./PromptPicker";
import { headPlace, overviewPlace, rowOf, rowPlace, tabPlace, viewOf } from "./places";
import { TABS, type Tab } from "./tabs";

interface Props {
  readonly where: Where;
  readonly listings: readonly Listing[];
  readonly overview: Overview | undefined;
  readonly tabs: readonly Tab[];
  readonly view: string;
}

/** Which recording this is, and the ways through it. */
export function RoomHeader({ where, listings, overview, tabs, view }: Props) {
  const listing = overview ?? listings[where.recording];
  const ways = tabs.map((one) => ({
    key: String(TABS.findIndex((tab) => tab.view === one.view) + 1),
    does: one.view,
    run: () => go(tabPlace(where, one.view)),
  }));
  useKeys("Ways", ways);
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
        <GlossaryButton />
        <HelpButton />
      </div>
      <Tabs {...{ where, view, tabs }} />
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

function Tabs({ where, view, tabs }: Pick<Props, "where" | "view" | "tabs">) {
  const placeOf = (one: Tab) =>
    one.keeps && one.view === view ? place.value : tabPlace(where, one.view);
  return (
    <nav class="room-tabs" aria-label="Views" data-part="tabs">
      {tabs.map((one) => (
        <a
          key={one.view}
          href={linkTo(placeOf(one))}
          {...(one.view === view ? { "aria-current": "page" } : {})}
        >
          {one.title}
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
