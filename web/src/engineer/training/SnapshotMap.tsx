import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Rgb, shade } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import { Figure } from "../../parts/Figure";
import { Legend } from "../../parts/Legend";
import { Twin } from "../../parts/Twin";
import { theme } from "../../shell/theme";
import type { Snapshot } from "../../source/training";
import { RAW_SCALE, rgbOf } from "../head/inks";
import { styled } from "../head/styled";

const SIDE = 256; // pixels of the longer side

interface At {
  readonly row: number;
  readonly column: number;
}

/** A pooled map with the palette; grey where a cell has no weight. */
export function SnapshotMap({ map, label }: { map: Snapshot; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<At | null>(null);
  const zoom = SIDE / Math.max(map.rows, map.columns, 1);
  useLayoutEffect(() => {
    if (canvas.current) paintMap(canvas.current, map, rgbOf(styled("--hidden")));
  }, [map, theme.value]);
  return (
    <>
      <canvas
        ref={canvas}
        class="train-map"
        data-part="snapshot-map"
        data-step={map.step}
        data-rows={map.rows}
        data-columns={map.columns}
        style={{ width: `${map.columns * zoom}px`, height: `${map.rows * zoom}px` }}
        role="img"
        aria-label={`Pooled map of ${label} at step ${map.step}: queries down, keys across`}
        onPointerMove={(event) => setPointed(cellAt(event, map))}
        onPointerLeave={() => setPointed(null)}
      />
      <p class="train-map-reading" data-part="snapshot-reading">
        {pointed ? (
          <>
            query cell {pointed.row}, key cell {pointed.column}:{" "}
            <Figure value={map.weights[pointed.row * map.columns + pointed.column] ?? Number.NaN} />
          </>
        ) : (
          <span class="soft">
            {map.rows} × {map.columns} cells; point at one to read it.
          </span>
        )}
      </p>
      <Legend
        scale={RAW_SCALE}
        words="mean weight of a cell, grey where it is 0; queries down, keys across"
      />
      <Twin
        caption="Heaviest cells"
        columns={["query cell", "key cell", "weight"]}
        rows={heaviest(map)}
      />
    </>
  );
}

function paintMap(canvas: HTMLCanvasElement, map: Snapshot, none: Rgb): void {
  canvas.width = map.columns;
  canvas.height = map.rows;
  const image = new ImageData(map.columns, map.rows);
  map.weights.forEach((weight, n) => {
    image.data.set([...(weight > 0 ? shade(shareOf(weight, RAW_SCALE)) : none), 255], 4 * n);
  });
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}

function cellAt(event: PointerEvent, map: Snapshot): At {
  const box = (event.currentTarget as Element).getBoundingClientRect();
  const cell = (part: number, count: number) =>
    Math.min(Math.max(Math.floor(part * count), 0), count - 1);
  return {
    row: cell((event.clientY - box.top) / box.height, map.rows),
    column: cell((event.clientX - box.left) / box.width, map.columns),
  };
}

/** Of each row of cells the heaviest. */
function heaviest(map: Snapshot) {
  return Array.from({ length: map.rows }, (_, row) => {
    const weights = map.weights.subarray(row * map.columns, (row + 1) * map.columns);
    const most = weights.reduce((best, weight, n) => (weight > (weights[best] ?? 0) ? n : best), 0);
    return [row, most, <Figure key={row} value={weights[most] ?? Number.NaN} />];
  });
}
