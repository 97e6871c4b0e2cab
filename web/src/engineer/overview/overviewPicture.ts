import { css, shade } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import type { Overview, Scale, Stack } from "../../source/answers";
import type { Thumbnails } from "../../source/binary";
import type { Source, Where } from "../../source/source";
import { rgbOf } from "../head/inks";
import { styled } from "../head/styled";
import { originOf, originWords } from "../share/origin";
import { type SharedPicture, tintsNow } from "../share/picture";
import { element, scaleBar, svgDocument, type Tints, text } from "../share/svg";
import { atlasOf } from "./atlas";
import type { Show } from "./choice";
import { inOrder } from "./facts";
import { cornerOf, type GridLayout, labelEvery, layoutOf, naturalWidth } from "./gridLayout";
import { scaleOf, titleOf } from "./statistics";

// The grids as a drawing that stands by itself: title, labels, scale, caveat.

const [LEFT, TOP, FOOT, GAP] = [16, 64, 86, 30] as const;
const [LEAST_WIDTH, MOST_WIDTH] = [400, 900] as const;

export interface Drawn {
  readonly overview: Overview;
  readonly show: Show;
  readonly statistic: string;
  readonly pictures: ReadonlyMap<string, Thumbnails> | undefined;
}

export function overviewPicture(source: Source, where: Where, drawn: Drawn): SharedPicture {
  const { overview, statistic } = drawn;
  return {
    name: `overview-${statistic}`,
    svg: async () => drawing(drawn, originWords(await originOf(source, where))),
    numbers: async () => ({
      ...(await originOf(source, where)),
      statistic,
      words: overview.statistics[statistic]?.words,
      stacks: overview.stacks.map(({ name, grids }) => ({ name, grid: grids[statistic] ?? null })),
    }),
  };
}

function drawing(drawn: Drawn, from: string): string {
  const { overview, statistic } = drawn;
  const tints = tintsNow();
  const plain = { "font-family": tints.sans, "font-size": 12, fill: tints.soft };
  const isPictures = drawn.show === "pictures" && drawn.pictures !== undefined;
  const what = isPictures ? "every head, small" : titleOf(overview, statistic);
  const scale = isPictures ? overview.scale : scaleOf(statistic, overview);
  const parts = [
    text(what, { ...plain, x: LEFT, y: 26, fill: tints.ink, "font-size": 18 }),
    text(from, { ...plain, x: LEFT, y: 46 }),
  ];
  const natural = overview.stacks.map(({ layers, heads }) => naturalWidth(layers, heads));
  const width = Math.min(Math.max(...natural, LEAST_WIDTH) + 2 * LEFT, MOST_WIDTH);
  let y: number = TOP;
  for (const stack of inOrder(overview.stacks)) {
    const layout = layoutOf(width - 2 * LEFT, stack.layers, stack.heads);
    if (stack.name) parts.push(text(stack.name, { ...plain, x: LEFT, y: y - 4, fill: tints.ink }));
    const inner = isPictures
      ? image(drawn, stack, layout)
      : squares(stack, statistic, layout, scale);
    const at = { transform: `translate(${LEFT} ${y})` };
    parts.push(element("g", at, labels(layout, tints) + inner));
    y += layout.height + GAP;
  }
  parts.push(scaleBar(scale, LEFT, y, 220, tints));
  parts.push(text(scale.name, { ...plain, x: LEFT + 236, y: y + 10 }));
  parts.push(text(overview.caveat, { ...plain, x: LEFT, y: y + 52, "font-size": 11 }));
  return svgDocument(width, y + FOOT, tints, parts.join(""));
}

function squares(stack: Stack, statistic: string, layout: GridLayout, scale: Scale): string {
  const cells = (stack.grids[statistic] ?? []).flatMap((row, layer) =>
    row.map((value, head) => {
      if (value === null) return "";
      const size = { width: layout.size, height: layout.size };
      const fill = css(shade(shareOf(value, scale)));
      return element("rect", { ...cornerOf(layout, { layer, head }), ...size, fill });
    }),
  );
  return cells.join("");
}

function image({ overview, pictures }: Drawn, stack: Stack, layout: GridLayout): string {
  const given = pictures?.get(stack.name);
  if (!given) return "";
  const atlas = atlasOf(given, overview.scale, rgbOf(styled("--hidden")));
  return element("image", {
    ...{ x: layout.left, y: layout.top },
    ...{ width: layout.heads * layout.step, height: layout.layers * layout.step },
    ...{ href: atlas.toDataURL(), style: "image-rendering:pixelated", preserveAspectRatio: "none" },
  });
}

function labels(layout: GridLayout, tints: Tints): string {
  const look = { "font-family": tints.sans, "font-size": 10, fill: tints.soft };
  const middle = (n: number) => n * layout.step + layout.size / 2;
  const found: string[] = [];
  for (let head = 0; head < layout.heads; head += labelEvery(layout.step, 22)) {
    const at = { x: layout.left + middle(head), y: layout.top - 5, "text-anchor": "middle" };
    found.push(text(`H${head}`, { ...look, ...at }));
  }
  for (let layer = 0; layer < layout.layers; layer += labelEvery(layout.step, 13)) {
    const at = { x: layout.left - 6, y: layout.top + middle(layer) + 3, "text-anchor": "end" };
    found.push(text(`L${layer}`, { ...look, ...at }));
  }
  return found.join("");
}
