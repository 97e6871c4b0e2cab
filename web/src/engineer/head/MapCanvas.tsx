import type { Signal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import type { Scale } from "../../source/answers";
import { useGestures } from "./gestures";
import { hiddenKeys, mapInks, sceneOf } from "./mapScene";
import type { MapTools } from "./mapTools";
import { coverKeys, paintMap, type Scene } from "./paint";
import { type Brush, type Painting, usePainting } from "./painting";
import { type TileAt, tilesIn } from "./tiling";
import { originOf } from "./view";

interface Props {
  readonly tools: MapTools;
  /** The scale that the picture has now. */
  readonly scale: Signal<Scale>;
  readonly onReady: () => void;
}

/** The heat map itself. Nothing but tiles is drawn on it, so that its pixels can be read. */
export function MapCanvas({ tools, scale, onReady }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painting = useMemo(() => mapPainting(tools, scale, onReady), [tools]);
  usePainting(canvas, painting);
  useGestures(canvas, tools.state);
  const { facts } = tools.state;
  return (
    <>
      <canvas
        ref={canvas}
        class="head-map"
        data-part="map"
        role="img"
        aria-label={`Attention of ${facts.label}: ${facts.shape[0]} queries by ${facts.shape[1]} keys`}
      />
      <CellMarks tools={tools} />
    </>
  );
}

function mapPainting(tools: MapTools, scale: Signal<Scale>, onReady: () => void): Painting {
  const { state, tiles } = tools;
  return {
    watch: () => [
      state.view.value,
      state.colouring.value,
      state.linear.value,
      state.withSinks.value,
      tiles.news.value,
    ],
    sized: (size, ratio) => {
      state.size.value = size;
      state.ratio.value = ratio;
    },
    paint: (brush) => {
      const scene = sceneOf(tools, brush.size, brush.ratio);
      if (!scene) return;
      brush.pen.setTransform(1, 0, 0, 1, 0, 0);
      paintMap(brush.pen, scene, mapInks());
      coverKeys(brush.pen, scene, hiddenKeys(tools), mapInks());
      if (!isSame(scale.peek(), scene.ink.scale)) scale.value = scene.ink.scale;
      tiles.want(wanted(tools, scene));
      tell(brush, scene, tiles.waiting.peek());
      if (isFull(tools, scene)) onReady();
    },
  };
}

/** What is looked at, after the overview: it is there at once and stands in for all the rest. From
 * afar it comes alone, since it may be all that is needed. */
function wanted(tools: MapTools, scene: Scene): readonly TileAt[] {
  const seen = tilesIn(scene.view, scene.size, scene.shape, scene.level, scene.how);
  const level = tools.state.overview.peek();
  if (level === null) return seen;
  const overview: TileAt = { level, y: 0, x: 0, how: "mean" };
  const isFar = scene.level * 2 >= level;
  return isFar && !tools.tiles.get(overview) ? [overview] : [overview, ...seen];
}

/** Nothing is missing; or, seen from afar, the overview stands in for what is. */
function isFull({ state, tiles }: MapTools, scene: Scene): boolean {
  const level = state.overview.peek();
  if (tiles.waiting.peek() === 0) return true;
  if (level === null || scene.level === 1 || scene.how !== "mean") return false;
  return tiles.get({ level, y: 0, x: 0, how: "mean" }) !== undefined;
}

/** Where a cell is on the canvas, for whoever reads its pixels. */
function tell({ pen }: Brush, scene: Scene, waiting: number): void {
  const origin = originOf(scene.view, scene.size);
  Object.assign(pen.canvas.dataset, {
    originX: String(origin.x),
    originY: String(origin.y),
    pxPerToken: String(scene.view.z),
    level: String(scene.level),
    how: scene.how,
    waiting: String(waiting),
  });
}

function isSame(a: Scale, b: Scale): boolean {
  return a.name === b.name && a.log === b.log && a.low === b.low && a.high === b.high;
}

const LEAST_BOX = 5;

/** The cursor's cell as a frame, and the row and key that are pointed at as lines. */
function CellMarks({ tools }: { tools: MapTools }) {
  const { state } = tools;
  const size = state.size.value;
  if (size.width === 0) return null;
  const view = state.view.value;
  const origin = originOf(view, size);
  const looked = state.looked.value;
  const cursor = state.cursor.value;
  const place = (n: number, start: number) => (n - start) * view.z;
  const side = Math.max(view.z, LEAST_BOX);
  const nudge = (view.z - side) / 2;
  return (
    <div class="head-marks" aria-hidden="true">
      {looked && (
        <>
          <i class="line row" style={{ top: `${place(looked.row + 0.5, origin.y)}px` }} />
          <i class="line key" style={{ left: `${place(looked.key + 0.5, origin.x)}px` }} />
        </>
      )}
      {cursor && (
        <i
          class="cell"
          data-part="cursor"
          style={{
            left: `${place(cursor.key, origin.x) + nudge}px`,
            top: `${place(cursor.row, origin.y) + nudge}px`,
            width: `${side}px`,
            height: `${side}px`,
          }}
        />
      )}
    </div>
  );
}
