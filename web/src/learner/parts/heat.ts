import { type Rgb, shade } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import { figure } from "../../maths/format";
import type { Matrix } from "../../maths/matrix";
import type { Scale } from "../../source/answers";
import { say } from "../language";

/** Weights of one head: rows look, columns are looked at. */
export interface Heat {
  readonly weights: Matrix;
  readonly labels: readonly string[];
  /** Whether a row may not see the keys after it. */
  readonly causal: boolean;
  /** The row that is spelt out beside the map. */
  readonly mark: number;
}

const FEW = 8; // tokens whose weights can all be said aloud
const SAID = 12; // heaviest keys of one row
const LINEAR = 32; // tokens
const CODES = { hidden: 0, first: 1, last: 255 };
const WEIGHT: Scale = { name: "weight", low: 0, high: 1, log: false, ...CODES };
// Among many keys every weight is small: what tells is how often the even share it is.
const TIMES: Scale = { name: "times", low: 0.1, high: 100, log: true, ...CODES };

/** The one scale of a map of so many tokens. */
export function heatScale(count: number): Scale {
  return count <= LINEAR ? WEIGHT : TIMES;
}

export function isHidden({ causal }: Heat, row: number, key: number): boolean {
  return causal && key > row;
}

/** The colour of a cell; none where the row may not look. */
export function heatColour(heat: Heat, row: number, key: number): Rgb | null {
  if (isHidden(heat, row, key)) return null;
  const weight = heat.weights[row]?.[key] ?? Number.NaN;
  const scale = heatScale(heat.labels.length);
  const seen = heat.causal ? row + 1 : heat.labels.length;
  return shade(shareOf(scale.log ? weight * seen : weight, scale));
}

/** The map in words: every weight of a few tokens, of many the heaviest of the marked row. */
export function heatInWords(heat: Heat): string {
  const { labels, mark } = heat;
  if (labels.length > FEW) return rowInWords(heat, mark);
  return labels.map((_, row) => rowInWords(heat, row)).join(" ");
}

function rowInWords(heat: Heat, row: number): string {
  const weights = heat.weights[row] ?? [];
  const seen = weights.map((_, key) => key).filter((key) => !isHidden(heat, row, key));
  const heaviest = [...seen].sort((a, b) => (weights[b] ?? 0) - (weights[a] ?? 0)).slice(0, SAID);
  const said = seen.length > SAID ? heaviest : seen;
  const words = said.map((key) => `${heat.labels[key]} ${figure(weights[key] ?? 0, 2)}`);
  return say("heat.row", { name: heat.labels[row] ?? "", weights: words });
}
