import { effect, signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";
import { theme } from "../../shell/theme";
import type { Size } from "./view";

// A canvas that is as sharp as the screen and is drawn again, once a frame, when something that it
// shows has changed.

export interface Brush {
  /** Draws in CSS pixels. */
  readonly pen: CanvasRenderingContext2D;
  readonly size: Size;
  readonly ratio: number;
}

export interface Painting {
  /** Reads every signal that the picture depends on. */
  readonly watch: () => unknown;
  readonly paint: (brush: Brush) => void;
  readonly sized?: (size: Size, ratio: number) => void;
}

export function usePainting(canvas: RefObject<HTMLCanvasElement | null>, painting: Painting): void {
  useEffect(() => {
    const at = canvas.current;
    const pen = at?.getContext("2d");
    if (!at || !pen) return;
    const size = signal<Size>({ width: 0, height: 0 });
    const observer = new ResizeObserver(() => {
      const box = { width: at.clientWidth, height: at.clientHeight };
      painting.sized?.(box, devicePixelRatio);
      size.value = box;
    });
    observer.observe(at);
    let frame = 0;
    const leave = effect(() => {
      const box = size.value;
      theme.value; // colours of the style sheet change with it
      painting.watch();
      cancelAnimationFrame(frame);
      if (box.width > 0) frame = requestAnimationFrame(() => paintOn(at, pen, box, painting));
    });
    return () => {
      leave();
      cancelAnimationFrame(frame);
      observer.disconnect();
    };
  }, [canvas, painting]);
}

function paintOn(
  at: HTMLCanvasElement,
  pen: CanvasRenderingContext2D,
  size: Size,
  painting: Painting,
): void {
  const ratio = devicePixelRatio;
  const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
  if (at.width !== width) at.width = width;
  if (at.height !== height) at.height = height;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  painting.paint({ pen, size, ratio });
}
