import { useLayoutEffect, useRef } from "preact/hooks";
import { useWidth } from "../../parts/useWidth";
import { theme } from "../../shell/theme";
import { type Cell, cellAt, placedOf } from "./layout";
import { type BoardScene, paintBoard } from "./painting";

interface Props {
  readonly scene: BoardScene;
  readonly frame: number;
  /** Height ÷ width. */
  readonly ratio: number;
  readonly words: string;
  readonly onHover?: (cell: Cell | null) => void;
  readonly onPick?: (cell: Cell) => void;
  /** A point outside the window that the head is about. */
  readonly onOutside?: (at: { x: number; y: number }) => void;
  readonly part?: string;
}

/** One picture with numbers over its patches. */
export function Board({ scene, frame, ratio, words, onHover, onPick, onOutside, part }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const height = Math.round(width * ratio);
  useLayoutEffect(() => {
    const at = canvas.current;
    const pen = at?.getContext("2d");
    if (!at || !pen || !width) return;
    const sharp = devicePixelRatio;
    at.width = Math.round(width * sharp);
    at.height = Math.round(height * sharp);
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    paintBoard(pen, { width, height }, scene);
  }, [scene, width, height, theme.value]);
  const pointOf = (event: MouseEvent) => {
    const around = (event.currentTarget as Element).getBoundingClientRect();
    return {
      x: (event.clientX - around.left) / around.width,
      y: (event.clientY - around.top) / around.height,
    };
  };
  const cellOfEvent = (event: MouseEvent) =>
    cellAt(scene.part.grid, scene.window, pointOf(event), frame);
  const { rows, columns } = placedOf(scene.part.grid, scene.window);
  return (
    <div class="pic-board" ref={box}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={words}
        style={{ height: `${height}px` }}
        {...(part ? { "data-part": part } : {})}
        data-rows={rows}
        data-columns={columns}
        onPointerMove={(event) => onHover?.(cellOfEvent(event))}
        onPointerLeave={() => onHover?.(null)}
        onClick={(event) => {
          const cell = cellOfEvent(event);
          if (cell) onPick?.(cell);
          else onOutside?.(pointOf(event));
        }}
      />
    </div>
  );
}
