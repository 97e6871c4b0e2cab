import { useLayoutEffect, useRef } from "preact/hooks";
import { theme } from "../../shell/theme";
import type { Scale } from "../../source/answers";
import { NO_PICTURE, type Thumbnails } from "../../source/binary";
import { logInk, rgbOf } from "../head/inks";
import type { Cell } from "./gridLayout";

interface Props {
  readonly given: Thumbnails;
  readonly cell: Cell;
  readonly scale: Scale;
  readonly size: number;
  readonly label: string;
}

/** One head's small picture, larger; nothing where there is none. */
export function HeadPicture({ given, cell, scale, size, label }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const at = cell.layer * given.heads + cell.head;
  const { side } = given;
  useLayoutEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!canvas.current || !pen) return;
    const hidden = rgbOf(getComputedStyle(canvas.current).getPropertyValue("--hidden"));
    const ink = logInk(scale, hidden).words;
    const image = new ImageData(side, side);
    const words = new Uint32Array(image.data.buffer);
    const codes = given.codes.subarray(at * side * side, (at + 1) * side * side);
    codes.forEach((code, n) => {
      words[n] = ink[code] ?? 0;
    });
    pen.putImageData(image, 0, 0);
  }, [given, at, theme.value]);
  if ((given.kinds[at] ?? NO_PICTURE) === NO_PICTURE) return null;
  return (
    <canvas
      ref={canvas}
      class="head-picture"
      data-part="head-picture"
      width={side}
      height={side}
      style={{ width: `${size}px`, height: `${size}px` }}
      role="img"
      aria-label={`Map of ${label}, small`}
    />
  );
}
