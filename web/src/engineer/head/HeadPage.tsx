import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { count } from "../../maths/format";
import { Notice } from "../../parts/Notice";
import { go, linkTo, place } from "../../shell/address";
import { useKeys } from "../../shell/keys";
import type { HeadFacts, Overview } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { useAsked } from "../answer";
import { PinButton, PinNote } from "../Pinned";
import { headPlace, rowPlace } from "../places";
import { ShareMenu } from "../share/ShareMenu";
import { comebacks, noteFailure } from "../states/connection";
import { markReady } from "../states/ready";
import { DistanceChart } from "./DistanceChart";
import { Labels, Statistics, TrackTables } from "./Facts";
import { GoTo } from "./GoTo";
import { headPicture } from "./headPicture";
import { MapFrame } from "./MapFrame";
import { mapKeys } from "./mapKeys";
import { type MapTools, mapTools } from "./mapTools";
import { type Neighbours, neighboursOf } from "./neighbours";
import "./head.css";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly label: string;
  /** For the heads beside it, once it is here. */
  readonly overview: Overview | undefined;
}

/** One head: its map down to single weights, what it is known to do, and its numbers. */
export function HeadPage({ source, where, label, overview }: Props) {
  const facts = useAsked(source, "head", { ...where, head: label });
  if (facts.state === "failed") {
    return (
      <main class="head-page">
        <Notice kind="error">{facts.error.message}</Notice>
      </main>
    );
  }
  if (facts.state === "waiting" || facts.value.label !== label) {
    return <main class="head-page waiting" aria-busy="true" />;
  }
  return (
    <Shown key={label} source={source} where={where} facts={facts.value} overview={overview} />
  );
}

interface ShownProps {
  readonly source: Source;
  readonly where: Where;
  readonly facts: HeadFacts;
  readonly overview: Overview | undefined;
}

function Shown({ source, where, facts, overview }: ShownProps) {
  const tools = useMemo(() => mapTools(source, where, facts, place.peek()), [facts]);
  const opened = { goTo: useSignal(false), exact: useSignal(false) };
  const isReady = useSignal(false);
  const { state } = tools;
  useEffect(() => state.follow(), [state]);
  useEffect(() => () => tools.tiles.close(), [tools]);
  useTilesAgain(tools);
  const onReady = useMemo(() => () => readyOnce(isReady), [isReady]);
  useEffect(() => {
    if (!facts.levels.mean.length) onReady(); // there is no map to wait for
  }, [facts, onReady]);
  const neighbours = neighboursOf(overview?.heads ?? [], facts.label);
  const openRow = () => {
    const row = state.cursor.peek()?.row ?? Math.floor(state.view.peek().y);
    go(rowPlace(where, facts.label, Math.max(row, facts.recorded[0])));
  };
  useKeys("Map", mapKeys(state, opened, openRow));
  useKeys("Head", neighbourKeys(where, neighbours, tools));
  return (
    <main class="head-page" data-part="head-page" data-head={facts.label}>
      <Top source={source} where={where} tools={tools} neighbours={neighbours} openRow={openRow} />
      <Troubles facts={facts} tools={tools} />
      <GoTo
        open={opened.goTo}
        title="Go to a cell, by numbers or by words of the text"
        fields={[
          {
            ...{ name: "row", most: facts.shape[0] - 1, book: tools.queryTokens },
            value: state.cursor.value?.row ?? 0,
          },
          {
            ...{ name: "key", most: facts.shape[1] - 1, book: tools.keyTokens },
            value: state.cursor.value?.key ?? 0,
          },
        ]}
        go={([row, key]) => state.goTo({ row: row ?? 0, key: key ?? 0 }, facts.exact ? 16 : 0)}
      />
      <MapFrame
        {...{ where, tools, opened, onReady }}
        openRow={(row) => go(rowPlace(where, facts.label, row))}
      >
        {isReady.value && <Labels source={source} where={where} label={facts.label} />}
      </MapFrame>
      {facts.tracks.distance && <DistanceChart track={facts.tracks.distance} />}
      <Statistics facts={facts} overview={overview} />
      <TrackTables facts={facts} />
      <p class="soft head-caveat">{facts.caveat}</p>
    </main>
  );
}

/** Tiles that a server which was gone did not send are asked for when it is back. */
function useTilesAgain(tools: MapTools): void {
  const seen = useRef(comebacks.value);
  useSignalEffect(() => {
    const failure = tools.tiles.failure.value;
    if (failure) noteFailure(failure);
    if (comebacks.value === seen.current) return;
    seen.current = comebacks.value;
    tools.tiles.retry();
  });
}

function readyOnce(isReady: { value: boolean; peek(): boolean }): void {
  if (isReady.peek()) return;
  isReady.value = true;
  markReady("head");
}

function neighbourPlace(where: Where, tools: MapTools, label: string) {
  const words = Object.entries(tools.state.words()).filter((pair) => pair[1] !== undefined);
  return headPlace(where, label, Object.fromEntries(words) as Record<string, string>);
}

function neighbourKeys(where: Where, near: Neighbours, tools: MapTools) {
  const one = (key: string, does: string, label: string | null) =>
    label === null ? [] : [{ key, does, run: () => go(neighbourPlace(where, tools, label)) }];
  return [
    ...one("[", "head before", near.before),
    ...one("]", "head after", near.after),
    ...one("{", "layer before", near.above),
    ...one("}", "layer after", near.below),
  ];
}

interface TopProps {
  readonly source: Source;
  readonly where: Where;
  readonly tools: MapTools;
  readonly neighbours: Neighbours;
  readonly openRow: () => void;
}

function Top({ source, where, tools, neighbours, openRow }: TopProps) {
  const { state } = tools;
  const { facts } = state;
  const links = [
    ["[", neighbours.before, "head before"],
    ["]", neighbours.after, "head after"],
    ["{", neighbours.above, "layer before"],
    ["}", neighbours.below, "layer after"],
  ] as const;
  const picture = headPicture(source, where, tools);
  return (
    <header class="head-top">
      <h1>{facts.label}</h1>
      <p class="soft">
        {count(facts.shape[0])} queries × {count(facts.shape[1])} keys
        {facts.kind === "cross" && ", cross-attention"}
      </p>
      <nav aria-label="Heads beside this one">
        {links.map(
          ([key, label, words]) =>
            label && (
              <a
                key={key}
                class="button"
                title={`${words} (${key})`}
                href={linkTo(neighbourPlace(where, tools, label))}
              >
                <kbd>{key}</kbd> {label}
              </a>
            ),
        )}
      </nav>
      <button type="button" onClick={openRow} title="The prompt shaded by one row (r)">
        {state.cursor.value ? `row ${state.cursor.value.row}` : "a row"}
      </button>
      <PinButton label={facts.label} />
      <PinNote label={facts.label} />
      <ShareMenu source={source} where={where} title={facts.label} picture={picture} />
    </header>
  );
}

/** What the reader must know before reading the map. */
function Troubles({ facts, tools }: { facts: HeadFacts; tools: MapTools }) {
  const { tiles, state } = tools;
  const [first, stop] = facts.recorded;
  const finest = facts.levels.mean[0];
  const failure = tiles.failure.value;
  return (
    <>
      {!facts.exact && (
        <Notice kind="warning">
          Single weights cannot be shown: {facts.why_not ?? "q and k were not recorded"}.{" "}
          {finest === undefined
            ? "No map of this head was stored either."
            : `The finest map here has ${finest} × ${finest} tokens a pixel.`}
        </Notice>
      )}
      {facts.exact && state.overview.value === null && (
        <Notice kind="info">
          No overview of this head was stored, so the map starts at the first rows. The whole map
          (key 0) is computed on request, which takes a while at this length.
        </Notice>
      )}
      {(first > 0 || stop < facts.shape[0]) && (
        <Notice kind="info">
          {stop > first ? `Rows ${first}–${stop - 1} were recorded` : "No row was recorded"}; the
          others are hatched.
        </Notice>
      )}
      {facts.problems.map((text) => (
        <Notice key={text} kind="warning">
          {text}
        </Notice>
      ))}
      {tiles.isBroken.value && (
        <Notice kind="warning">
          Some weights of this head are NaN, because q or k is NaN there. They are drawn like hidden
          cells; the read-out distinguishes the two.
        </Notice>
      )}
      {failure && !failure.isGone && (
        <Notice kind="error">
          A part of the map is missing: {failure.message}{" "}
          <button type="button" onClick={() => tiles.retry()}>
            Retry
          </button>
        </Notice>
      )}
    </>
  );
}
