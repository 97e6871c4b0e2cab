import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { place } from "../shell/address";
import type { Overview, Sight, TrainingFacts } from "../source/answers";
import type { Source, Where } from "../source/source";
import { type Answer, arrived, useAnswer, useAsked } from "./answer";
import { Glossary, terms } from "./Glossary";
import { HeadPage } from "./head/HeadPage";
import { rowOf, viewOf, whereOf } from "./places";
import { RoomHeader } from "./RoomHeader";
import { RowPage } from "./row/RowPage";
import { Boundary } from "./states/Boundary";
import { useConnection } from "./states/connection";
import { Gone } from "./states/Gone";
import { useOverview } from "./states/overview";
import { unmarkReady } from "./states/ready";
import { Unopened } from "./states/Unopened";
import { Waiting } from "./states/Waiting";
import { TABS, type Tab, tabOf } from "./tabs";
import { useTraining } from "./training/run";
import "./room.css";
import "./states/states.css";

const SERVER_ERROR = 500;

/** The engineer's room: a recording, seen from afar and up close. */
export function EngineerRoom({ source }: { source: Source }) {
  const { view, head = "", row = "" } = place.value;
  return (
    <Boundary name={`${view}/${head}/${row}`}>
      <Frame source={source} />
    </Boundary>
  );
}

function Frame({ source }: { source: Source }) {
  useConnection(source);
  const where = whereOf(place.value);
  const listings = useAnswer(() => source.recordings(), [source], true);
  const overview = useOverview(source, where);
  const training = useTraining(source, where, arrived(overview));
  const due = arrived(overview)?.revision;
  const sight = useAsked(source, "sight", where, { due });
  const view = viewShown(viewOf(place.value), arrived(overview), arrived(training));
  useTitle(view, arrived(overview));
  useEffect(() => {
    terms.value = arrived(overview)?.glossary ?? {};
  }, [arrived(overview)]);
  const body = useFocusOnArrival(view);
  if (listings.state === "failed") return <Unopened source={source} error={listings.error} />;
  return (
    <div class="room">
      <button type="button" class="room-skip" onClick={() => body.current?.focus()}>
        Skip to what is shown
      </button>
      <Gone source={source} />
      <Glossary />
      <RoomHeader
        {...{ where, view }}
        listings={arrived(listings) ?? []}
        overview={arrived(overview)}
        tabs={tabsOf(arrived(overview), training, sight)}
      />
      <div class="room-body" ref={body} tabIndex={-1}>
        <Shown {...{ source, where, overview, training, sight, view }} />
      </div>
    </div>
  );
}

/** A recording that holds nothing but a training run shows it, whatever is asked for. */
function viewShown(view: string, overview?: Overview, training?: TrainingFacts): string {
  const isBare = overview !== undefined && !overview.heads.length;
  if (isBare && training?.samples) return "training";
  return view === "head" || view === "row" ? view : tabOf(view).view;
}

/** Heads and a run have their tabs; and so has a run that cannot be read, where it says why. What was
 * read without a picture or a sound has none for them. */
function tabsOf(
  overview: Overview | undefined,
  training: Answer<TrainingFacts>,
  sight: Answer<Sight>,
): readonly Tab[] {
  const isBare = overview !== undefined && !overview.heads.length;
  const hasRun = training.state === "here" && training.value.samples > 0;
  const isBroken = training.state === "failed" && training.error.status >= SERVER_ERROR;
  const there = {
    heads: !(isBare && hasRun),
    training: hasRun || isBroken,
    sight: hasSight(sight),
  };
  const titled = (one: Tab) => (one.of === "sight" ? { ...one, title: sightTitle(sight) } : one);
  return TABS.filter((one) => there[one.of]).map(titled);
}

function hasSight(sight: Answer<Sight>): boolean {
  return sight.state === "here" && Object.keys(sight.value.places).length > 0;
}

function sightTitle(sight: Answer<Sight>): string {
  const axes = arrived(sight)?.axes ?? [];
  return axes.some((axis) => axis.some((part) => part.grid)) ? "Picture" : "Sound";
}

interface ShownProps {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Answer<Overview>;
  readonly training: Answer<TrainingFacts>;
  readonly sight: Answer<Sight>;
  readonly view: string;
}

function Shown({ source, where, overview, training, sight, view }: ShownProps) {
  const label = place.value.head ?? "";
  if (view === "head" && label) {
    return <HeadPage {...{ source, where, label }} overview={arrived(overview)} />;
  }
  if (view === "row" && label) {
    return <RowPage source={source} where={where} label={label} row={rowOf(place.value)} />;
  }
  if (overview.state === "failed") return <Unopened source={source} error={overview.error} />;
  const isOpening =
    overview.state === "waiting" ||
    (!overview.value.heads.length && training.state === "waiting" && view === "overview");
  if (isOpening) {
    return (
      <main class="page">
        <Waiting words="Opening the recording" />
      </main>
    );
  }
  const { Page } = tabOf(view);
  return <Page {...{ source, where, training, sight }} overview={overview.value} />;
}

function useTitle(view: string, overview: Overview | undefined): void {
  const { head = "", row = "" } = place.value;
  const what = view === "head" ? head : view === "row" ? `${head} row ${row}` : view;
  const name = overview?.name;
  useEffect(() => {
    document.title = [what, name, "regard"].filter(Boolean).join(" · ");
  }, [what, name]);
}

/** A reader who goes elsewhere finds the focus, and the top of the page, there. */
function useFocusOnArrival(view: string) {
  const body = useRef<HTMLDivElement>(null);
  const { head = "", row = "", rec = "", prompt = "" } = place.value;
  const inside = view === "head" || view === "row" ? [head, row] : ["", ""];
  const at = [view, ...inside, rec, prompt].join("/");
  const before = useRef(at);
  useLayoutEffect(() => {
    if (before.current === at) return;
    const isRowStep = view === "row" && before.current.startsWith(`row/${head}/`);
    before.current = at;
    unmarkReady();
    if (isRowStep) return; // the next row of the same head: whoever steps keeps the focus
    body.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [at]);
  return body;
}
