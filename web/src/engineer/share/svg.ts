import { css, PALETTE } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import { ticks } from "../../parts/Legend";
import type { Scale } from "../../source/answers";

// Vector pictures as text. Whatever is said in them passes through `text`.

type Attributes = Readonly<Record<string, string | number | undefined>>;

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};
// Characters that XML does not have: a token may hold any.
const NO_XML = /[\p{Cc}\p{Cs}\ufffe\uffff]/gu;

export function escaped(text: string): string {
  return text.replace(NO_XML, "\ufffd").replace(/[&<>"]/g, (one) => ESCAPES[one] ?? one);
}

export function element(name: string, attributes: Attributes, inner = ""): string {
  const given = Object.entries(attributes)
    .filter((pair) => pair[1] !== undefined)
    .map(([key, value]) => ` ${key}="${escaped(spelledNumber(value))}"`)
    .join("");
  return inner ? `<${name}${given}>${inner}</${name}>` : `<${name}${given}/>`;
}

function spelledNumber(value: string | number | undefined): string {
  return typeof value === "number" ? String(Number(value.toFixed(3))) : (value ?? "");
}

export function text(content: string, attributes: Attributes): string {
  return element("text", attributes, escaped(content));
}

export interface Tints {
  readonly paper: string;
  readonly ink: string;
  readonly soft: string;
  readonly sans: string;
  readonly mono: string;
}

const BAR_STEPS = 64;

/** The palette with its numbers, `width` wide and 26 high. */
export function scaleBar(scale: Scale, x: number, y: number, width: number, tints: Tints): string {
  const step = width / BAR_STEPS;
  const colours = Array.from({ length: BAR_STEPS }, (_, n) => {
    const rgb = PALETTE[Math.round((n / (BAR_STEPS - 1)) * (PALETTE.length - 1))];
    // a little wider than its place: no gap shows between two
    return element("rect", {
      ...{ x: x + n * step, y, width: step + 0.5, height: 10 },
      fill: rgb && css(rgb),
    });
  });
  const marks = ticks(scale);
  const numbers = marks.map(([value, words], n) =>
    text(words, {
      ...{ x: x + width * shareOf(value, scale), y: y + 23, "font-size": 11 },
      ...{ fill: tints.soft, "font-family": tints.sans },
      "text-anchor": n === 0 ? "start" : n === marks.length - 1 ? "end" : "middle",
    }),
  );
  return element("g", {}, [...colours, ...numbers].join(""));
}

export function svgDocument(width: number, height: number, tints: Tints, inner: string): string {
  const back = element("rect", { width, height, fill: tints.paper });
  return element(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` },
    back + inner,
  );
}
