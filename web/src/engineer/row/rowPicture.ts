import { figure, short } from "../../maths/format";
import type { HeadFacts } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { shortened, spelledIfKnown } from "../head/spelling";
import { styled } from "../head/styled";
import { originOf, originWords } from "../share/origin";
import { type SharedPicture, tintsNow } from "../share/picture";
import { element, svgDocument, text } from "../share/svg";
import { ARC_BASE, ARC_HEIGHT, arcsOf, arcTicks, placeOn } from "./Arcs";
import { massWords } from "./Cumulative";
import type { Row } from "./rowAnswers";

// A row's arcs and heaviest keys as a drawing that stands by itself.

const WIDTH = 860;
const TOP = 56;
const LISTED = 10;
const SMALL = 1e-3;

export function rowPicture(source: Source, where: Where, head: HeadFacts, row: Row): SharedPicture {
  return {
    name: `${head.label}-row-${row.facts.row}`,
    head: head.label,
    svg: async () => drawing(head, row, originWords(await originOf(source, where))),
    numbers: async () => ({
      from: await originOf(source, where),
      head: head.label,
      ...{ row: row.facts.row, token: row.facts.token, visible: row.facts.visible },
      entropy: row.mass?.entropy ?? null,
      top: row.facts.top,
      weights: row.shading.weights && [...row.shading.weights],
      caveat: row.facts.caveat,
    }),
  };
}

function drawing(head: HeadFacts, row: Row, from: string): string {
  const tints = tintsNow();
  const plain = { "font-family": tints.sans, "font-size": 12, fill: tints.soft };
  const scene = { span: row.span, query: row.shading.query, top: row.top };
  const listTop = TOP + ARC_HEIGHT + 24;
  const lines = row.top.slice(0, LISTED).map(({ key, weight }, n) => {
    const token = shortened(spelledIfKnown(row.facts.top[n]?.token), 24);
    const y = listTop + 20 + 17 * n;
    const mono = { ...plain, "font-family": tints.mono, y };
    return (
      text(String(key), { ...mono, x: 70, "text-anchor": "end" }) +
      text(token, { ...mono, x: 84, fill: tints.ink }) +
      text(weight < SMALL ? short(weight) : figure(weight), {
        ...mono,
        x: 330,
        "text-anchor": "end",
      })
    );
  });
  const height = listTop + 20 + 17 * lines.length + 30;
  const title = `${head.label}, row ${row.facts.row} ${shortened(spelledIfKnown(row.facts.token), 40)}`;
  const inner = [
    text(title, { ...plain, x: 16, y: 26, "font-size": 18, fill: tints.ink }),
    text(`${row.mass ? massWords(row.mass) : "the heaviest keys that were kept"}; ${from}`, {
      ...{ ...plain, x: 16, y: 46 },
    }),
    element("g", { transform: `translate(0 ${TOP})` }, arcs(scene, plain)),
    text(`${lines.length} heaviest of ${row.top.length} keys drawn: key, token, weight`, {
      ...{ ...plain, x: 16, y: listTop },
    }),
    ...lines,
    text(row.facts.caveat, { ...plain, x: 16, y: height - 12, "font-size": 11 }),
  ];
  return svgDocument(WIDTH, height, tints, inner.join(""));
}

type Style = Readonly<Record<string, string | number>>;

function arcs(scene: Parameters<typeof arcsOf>[0], style: Style): string {
  const base = element("line", {
    ...{ x1: 0, x2: WIDTH, y1: ARC_BASE, y2: ARC_BASE, stroke: styled("--line") },
  });
  const numbers = arcTicks(scene, WIDTH).map(([x, words]) =>
    text(words, { ...style, x, y: ARC_BASE + 16, "text-anchor": x < 16 ? "start" : "middle" }),
  );
  const paths = arcsOf(scene, WIDTH).map((arc) =>
    element("path", {
      ...{ d: arc.path, fill: "none", stroke: styled("--weight") },
      ...{ "stroke-width": arc.width, "stroke-opacity": arc.opacity },
    }),
  );
  const [x, y] =
    scene.query === null ? [WIDTH / 2, 6] : [placeOn(scene.query, scene, WIDTH), ARC_BASE];
  const query = element("circle", { cx: x, cy: y, r: 4, fill: styled("--q") });
  return [base, ...numbers, ...paths, query].join("");
}
