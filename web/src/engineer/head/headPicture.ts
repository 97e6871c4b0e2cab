import { valueOfCode } from "../../colour/scale";
import { count } from "../../maths/format";
import type { Source, Where } from "../../source/source";
import { originOf, originWords } from "../share/origin";
import { type SharedPicture, tintsNow } from "../share/picture";
import { element, scaleBar, svgDocument, text } from "../share/svg";
import { marksOf, SIDE_WORDS, spanOf } from "./Axis";
import { TOKEN_ROOM, tokensOn } from "./axis";
import { scaleWords } from "./Controls";
import { hiddenKeys, mapInks, sceneOf } from "./mapScene";
import type { MapTools } from "./mapTools";
import { coverKeys, paintMap } from "./paint";
import { styled } from "./styled";
import { TILE } from "./tiling";

// A head's map as a drawing that stands by itself: title, axes, scale, pooling, caveat.

const [LEFT, TOP, RIGHT, FOOT] = [104, 60, 16, 162] as const;
const SHARP = 2;
const PATIENCE = 8_000; // ms for tiles on their way
const MOST_CELLS = 2 ** 16; // in one question for exact weights

export function headPicture(source: Source, where: Where, tools: MapTools): SharedPicture {
  const { label } = tools.state.facts;
  return {
    name: label,
    head: label,
    svg: async () => {
      await tools.tiles.complete(PATIENCE);
      return drawing(tools, originWords(await originOf(source, where)));
    },
    numbers: () => numbers(source, where, tools),
  };
}

function drawing(tools: MapTools, from: string): string {
  const { state } = tools;
  const size = state.size.peek();
  const [width, height] = [LEFT + size.width + RIGHT, TOP + size.height + FOOT];
  const tints = tintsNow();
  const small = { "font-size": 11, "font-family": tints.mono, fill: tints.soft };
  const plain = { "font-family": tints.sans, fill: tints.soft, "font-size": 12 };
  const scene = sceneOf(tools, size, SHARP);
  const bottom = TOP + size.height;
  const parts = [
    text(state.facts.label, { ...plain, x: LEFT, y: 26, fill: tints.ink, "font-size": 18 }),
    text(`${inView(tools)}; ${from}`, { ...plain, x: LEFT, y: 46 }),
    element("image", {
      ...{ x: LEFT, y: TOP, width: size.width, height: size.height },
      ...{ href: mapImage(tools), style: "image-rendering:pixelated" },
    }),
    ...keyMarks(tools, bottom, small),
    ...queryMarks(tools, small),
    ...titles(tools, plain, bottom),
    scene ? scaleBar(scene.ink.scale, LEFT, bottom + 86, 220, tints) : "",
    text(`${scene?.ink.scale.name ?? ""}; ${scaleWords(state)}`, {
      ...{ ...plain, x: LEFT, y: bottom + 128, "font-size": 11 },
    }),
    text(state.facts.caveat, { ...plain, x: LEFT, y: bottom + 146, "font-size": 11 }),
  ];
  return svgDocument(width, height, tints, parts.join(""));
}

function inView(tools: MapTools): string {
  const [rows, keys] = [tokensOn(spanOf(tools, "queries")), tokensOn(spanOf(tools, "keys"))];
  const said = ([first, stop]: readonly [number, number]) => `${count(first)}–${count(stop - 1)}`;
  return `rows ${said(rows)}, keys ${said(keys)}`;
}

function mapImage(tools: MapTools): string {
  const size = tools.state.size.peek();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(size.width * SHARP);
  canvas.height = Math.round(size.height * SHARP);
  const pen = canvas.getContext("2d");
  const scene = sceneOf(tools, size, SHARP);
  if (pen && scene) {
    paintMap(pen, scene, mapInks());
    coverKeys(pen, scene, hiddenKeys(tools), mapInks());
  }
  return canvas.toDataURL("image/png");
}

type Style = Readonly<Record<string, string | number>>;

function keyMarks(tools: MapTools, bottom: number, style: Style): string[] {
  const isText = tools.state.view.peek().z >= TOKEN_ROOM;
  return marksOf(tools, "keys", 76).map((mark) => {
    const [x, y] = [LEFT + mark.at, bottom + (isText ? 6 : 15)];
    const turn = `rotate(-90 ${x.toFixed(2)} ${y})`;
    return isText
      ? text(mark.text, { ...style, x: x + 4, y, transform: turn, "text-anchor": "end" })
      : text(mark.text, { ...style, x, y, "text-anchor": "middle" });
  });
}

function queryMarks(tools: MapTools, style: Style): string[] {
  return marksOf(tools, "queries", LEFT - 10).map((mark) =>
    text(mark.text, { ...style, x: LEFT - 6, y: TOP + mark.at + 4, "text-anchor": "end" }),
  );
}

function titles(tools: MapTools, style: Style, bottom: number): string[] {
  if (tools.state.view.peek().z >= TOKEN_ROOM) return [];
  const { width, height } = tools.state.size.peek();
  const [x, y] = [16, TOP + height / 2];
  const middle = { ...style, "text-anchor": "middle" };
  return [
    text(SIDE_WORDS.keys, { ...middle, x: LEFT + width / 2, y: bottom + 36, fill: styled("--k") }),
    text(SIDE_WORDS.queries, {
      ...{ ...middle, x, y, fill: styled("--q"), transform: `rotate(-90 ${x} ${y})` },
    }),
  ];
}

/** The cells in view: exact weights where each has a pixel, else the values of the pixels. */
async function numbers(source: Source, where: Where, tools: MapTools): Promise<unknown> {
  const { state } = tools;
  const { facts } = state;
  const [rows, keys] = [tokensOn(spanOf(tools, "queries")), tokensOn(spanOf(tools, "keys"))];
  const isExact = facts.exact && state.level.peek() === 1;
  const found = isExact
    ? { what: "weights", values: await exactValues(source, where, facts.label, rows, keys) }
    : pixelValues(tools, rows, keys);
  return {
    from: await originOf(source, where),
    head: facts.label,
    ...{ rows, keys, ...found, caveat: facts.caveat },
  };
}

type Span = readonly [number, number];

async function exactValues(source: Source, where: Where, label: string, rows: Span, keys: Span) {
  const wide = keys[1] - keys[0];
  const tall = Math.max(Math.floor(MOST_CELLS / wide), 1);
  const values: number[][] = [];
  for (let row = rows[0]; row < rows[1]; row += tall) {
    const some = Math.min(tall, rows[1] - row);
    const { weights } = await source.cells(where, label, [row, some], [keys[0], wide]);
    for (let n = 0; n < some; n += 1) values.push([...weights.subarray(n * wide, (n + 1) * wide)]);
  }
  return values;
}

function pixelValues(tools: MapTools, rows: Span, keys: Span) {
  const { state, tiles } = tools;
  const level = state.level.peek() ?? 1;
  const how = state.how.peek();
  const span = ([first, stop]: Span) =>
    Array.from(
      { length: Math.ceil(stop / level) - Math.floor(first / level) },
      (_, n) => Math.floor(first / level) + n,
    );
  const valueAt = (down: number, across: number) => {
    const [y, x] = [Math.floor(down / TILE), Math.floor(across / TILE)];
    const code = tiles.get({ level, y, x, how })?.codes[(down % TILE) * TILE + (across % TILE)];
    return code === undefined ? null : Number(valueOfCode(code, state.facts.scale).toPrecision(4));
  };
  return {
    what: `${state.facts.scale.name}, ${how} of ${level} × ${level} tokens, to 1 % or so`,
    values: span(rows).map((down) => span(keys).map((across) => valueAt(down, across))),
  };
}
