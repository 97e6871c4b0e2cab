import { effect, type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Legend } from "../../parts/Legend";
import { amend, linkTo } from "../../shell/address";
import type { HeadFacts, Scale } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { useAsked } from "../answer";
import { MapCanvas } from "../head/MapCanvas";
import { type MapTools, mapTools } from "../head/mapTools";
import { Readout } from "../head/Readout";
import { headPlace } from "../places";
import { Failed, Waiting } from "../states/Waiting";
import "../head/head.css";

/** One of the two. */
export interface OneHead {
  readonly where: Where;
  readonly label: string;
  /** Whose it is. */
  readonly name: string;
  /** The word of the address that names it. */
  readonly word: "head" | "second";
  /** Heads there are to choose from. */
  readonly labels: readonly string[];
}

interface Props {
  readonly source: Source;
  readonly left: OneHead;
  readonly right: OneHead;
}

/** Two heads beside each other; what one map shows, the other shows too. */
export function TwoHeads({ source, left, right }: Props) {
  const [a, b] = [useFacts(source, left), useFacts(source, right)];
  const failed = [a, b].find((one) => one.state === "failed");
  return (
    <section class="comp-two" data-part="two-heads">
      <h2>Two heads side by side</h2>
      {failed?.state === "failed" && <Failed error={failed.error} />}
      {a.state === "here" && b.state === "here" ? (
        <Linked {...{ source, left, right }} facts={[a.value, b.value]} />
      ) : (
        !failed && <Waiting words="Opening both heads" />
      )}
    </section>
  );
}

function useFacts(source: Source, { where, label }: OneHead) {
  return useAsked(source, "head", { ...where, head: label }, { keep: true });
}

function Linked({ source, left, right, facts }: Props & { facts: [HeadFacts, HeadFacts] }) {
  const tools = useMemo(
    () => [mapTools(source, left.where, facts[0], {}), mapTools(source, right.where, facts[1], {})],
    [facts[0], facts[1]],
  ) as [MapTools, MapTools];
  useEffect(() => {
    const [a, b] = [tools[0].state, tools[1].state];
    const links = [linked(a.chosen, b.chosen), linked(a.cursor, b.cursor)];
    links.push(linked(a.pointer, b.pointer), linked(a.how, b.how), linked(a.linear, b.linear));
    return () => {
      for (const unlink of links) unlink();
      for (const one of tools) one.tiles.close();
    };
  }, [tools]);
  return (
    <>
      <div class="comp-maps">
        <OneMap one={left} tools={tools[0]} />
        <OneMap one={right} tools={tools[1]} />
      </div>
      <p class="soft">Drag and zoom either map: both show the same tokens.</p>
    </>
  );
}

/** Whatever one is set to, the other is too. */
export function linked<T>(a: Signal<T>, b: Signal<T>): () => void {
  const forth = effect(() => {
    const value = a.value;
    if (b.peek() !== value) b.value = value;
  });
  const back = effect(() => {
    const value = b.value;
    if (a.peek() !== value) a.value = value;
  });
  return () => {
    forth();
    back();
  };
}

function OneMap({ one, tools }: { one: OneHead; tools: MapTools }) {
  const scale = useSignal<Scale>(tools.state.facts.scale);
  return (
    <figure class="comp-map" data-part={`map-${one.word}`} data-head={one.label}>
      <figcaption>
        <label>
          <span class="soft">{one.name}</span>{" "}
          <select
            data-part={`choose-${one.word}`}
            value={one.label}
            onChange={(event) => amend({ [one.word]: event.currentTarget.value })}
          >
            {one.labels.map((label) => (
              <option key={label} value={label}>
                {label}
              </option>
            ))}
          </select>
        </label>{" "}
        <a href={linkTo(headPlace(one.where, one.label))}>open</a>
      </figcaption>
      <div class="comp-canvas">
        <MapCanvas tools={tools} scale={scale} onReady={() => undefined} />
      </div>
      <Legend scale={scale.value} words="" />
      <Readout tools={tools} />
    </figure>
  );
}
