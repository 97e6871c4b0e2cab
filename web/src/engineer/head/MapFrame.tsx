import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Scale } from "../../source/answers";
import type { Where } from "../../source/source";
import { Axis } from "./Axis";
import { Controls, MapLegend } from "./Controls";
import { ExactPanel } from "./ExactPanel";
import { MapCanvas } from "./MapCanvas";
import { Minimap } from "./Minimap";
import type { Opened } from "./mapKeys";
import type { MapTools } from "./mapTools";
import { Readout } from "./Readout";
import { Strip } from "./Strip";

const FLATTEST = 0.4;

/** How tall the map is for its width: a matrix of few queries needs less room. */
function tallness([queries, keys]: readonly [number, number]): number {
  return Math.min(Math.max(queries / Math.max(keys, 1), FLATTEST), 1);
}

interface Props {
  readonly where: Where;
  readonly tools: MapTools;
  readonly opened: Opened;
  readonly onReady: () => void;
  readonly openRow: (row: number) => void;
  /** What stands below the read-out. */
  readonly children: ComponentChildren;
}

/** The map with its axes and tracks, and beside it what is read from it. */
export function MapFrame({ where, tools, opened, onReady, openRow, children }: Props) {
  const { facts } = tools.state;
  const scale = useSignal<Scale>(facts.scale);
  const { received, entropy } = facts.tracks;
  const hasMap = facts.levels.mean.length > 0;
  return (
    <div class="head-frame">
      <div
        class={received || entropy ? "head-grid" : "head-grid bare"}
        style={{ "--head-part": String(tallness(facts.shape)) }}
      >
        {received && <Strip tools={tools} track={received} side="keys" name="received" />}
        <Axis tools={tools} side="queries" onToken={openRow} />
        <div class="head-map-box">
          <MapCanvas tools={tools} scale={scale} onReady={onReady} />
          {!hasMap && <p class="head-no-map">No map of this head was stored.</p>}
        </div>
        {entropy && <Strip tools={tools} track={entropy} side="queries" name="entropy" />}
        <Axis tools={tools} side="keys" onToken={openRow} />
      </div>
      <aside class="head-side">
        {hasMap && <Controls state={tools.state} opened={opened} />}
        <Readout tools={tools} />
        <div class="head-scale">
          {hasMap && <MapLegend tools={tools} scale={scale} />}
          {hasMap && <Minimap tools={tools} />}
        </div>
        {opened.exact.value && <ExactPanel {...{ tools, where }} />}
        {children}
      </aside>
    </div>
  );
}
