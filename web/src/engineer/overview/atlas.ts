import type { Rgb } from "../../colour/palette";
import type { Scale } from "../../source/answers";
import type { Thumbnails } from "../../source/binary";
import { logInk } from "../head/inks";

/** All thumbnails of a stack on one canvas, as the grid has them: drawn once, then only copied. */
export function atlasOf(given: Thumbnails, scale: Scale, hidden: Rgb): HTMLCanvasElement {
  const { layers, heads, side, codes } = given;
  const atlas = document.createElement("canvas");
  atlas.width = Math.max(heads * side, 1);
  atlas.height = Math.max(layers * side, 1);
  const image = new ImageData(atlas.width, atlas.height);
  const words = new Uint32Array(image.data.buffer);
  const ink = logInk(scale, hidden).words;
  for (let n = 0; n < layers * heads; n += 1) {
    const corner = Math.floor(n / heads) * side * atlas.width + (n % heads) * side;
    for (let y = 0; y < side; y += 1) {
      const from = (n * side + y) * side;
      const to = corner + y * atlas.width;
      for (let x = 0; x < side; x += 1) words[to + x] = ink[codes[from + x] ?? 0] ?? 0;
    }
  }
  atlas.getContext("2d")?.putImageData(image, 0, 0);
  return atlas;
}
