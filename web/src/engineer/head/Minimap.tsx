import { useMemo, useRef } from "preact/hooks";
import { logInk, rgbOf } from "./inks";
import { mapInks } from "./mapScene";
import type { MapTools } from "./mapTools";
import { paintMap } from "./paint";
import { type Painting, usePainting } from "./painting";
import { styled } from "./styled";
import type { KeptTile } from "./tileStore";
import { originOf, type Size, wholeView } from "./view";

/** All of the matrix, with a frame around what the map shows; drag it, or click. */
export function Minimap({ tools }: { tools: MapTools }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painting = useMemo(() => miniPainting(tools), [tools]);
  usePainting(canvas, painting);
  const { state } = tools;
  const move = (event: PointerEvent & { currentTarget: HTMLCanvasElement }) => {
    if (event.buttons !== 1) return;
    const at = event.currentTarget;
    at.setPointerCapture(event.pointerId);
    const whole = wholeView(state.shape, { width: at.clientWidth, height: at.clientHeight });
    const { z } = state.view.peek();
    state.show({ x: event.offsetX / whole.z, y: event.offsetY / whole.z, z });
  };
  return (
    <canvas
      ref={canvas}
      class="head-minimap"
      data-part="minimap"
      role="img"
      aria-label="All of the matrix, with a frame around what the map shows"
      onPointerDown={move}
      onPointerMove={move}
    />
  );
}

function miniPainting(tools: MapTools): Painting {
  const { state, tiles } = tools;
  let own: KeptTile | undefined; // a picture of its own: the map's may be in another ink
  return {
    watch: () => [state.view.value, state.size.value, tiles.news.value],
    paint: ({ pen, size, ratio }) => {
      const level = state.overview.peek();
      const view = wholeView(state.shape, size);
      const inks = mapInks();
      const ink = logInk(state.facts.scale, rgbOf(inks.hidden));
      if (level !== null && !own) {
        const tile = tiles.get({ level, y: 0, x: 0, how: "mean" });
        own = tile && { ...tile, picture: copyOf(tile.picture), ink: "" };
      }
      pen.setTransform(1, 0, 0, 1, 0, 0);
      paintMap(
        pen,
        {
          ...{ view, size, ratio, ink, shape: state.shape, recorded: state.facts.recorded },
          ...{ levels: level === null ? [] : [level], level: level ?? 1, how: "mean" },
          ...{ standIn: null, tileOf: () => own },
        },
        inks,
      );
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      paintFrame(pen, tools, view.z);
    },
  };
}

function copyOf(picture: HTMLCanvasElement): HTMLCanvasElement {
  const copy = document.createElement("canvas");
  copy.width = picture.width;
  copy.height = picture.height;
  return copy;
}

function paintFrame(pen: CanvasRenderingContext2D, tools: MapTools, scale: number): void {
  const { state } = tools;
  const size: Size = state.size.peek();
  if (size.width === 0) return;
  const view = state.view.peek();
  const origin = originOf(view, size);
  const wide = Math.min(size.width / view.z, state.shape.keys);
  const tall = Math.min(size.height / view.z, state.shape.queries);
  const least = 6;
  const [width, height] = [Math.max(wide * scale, least), Math.max(tall * scale, least)];
  const middle = { x: (origin.x + wide / 2) * scale, y: (origin.y + tall / 2) * scale };
  pen.lineWidth = 3;
  pen.strokeStyle = styled("--paper");
  pen.strokeRect(middle.x - width / 2, middle.y - height / 2, width, height);
  pen.lineWidth = 1.5;
  pen.strokeStyle = styled("--accent");
  pen.strokeRect(middle.x - width / 2, middle.y - height / 2, width, height);
}
