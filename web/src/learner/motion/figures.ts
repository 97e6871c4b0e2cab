import { figure, placesOf } from "../../maths/format";
import type { Vector } from "../../maths/matrix";
import { spellProducts } from "../parts/spelling";

// Numbers as the film writes them: those that stand together have as many decimals.

const VECTOR_PLACES = 2;
const RESULT_PLACES = 3;

/** Entries of q, k and v, and their products. */
export function entryPlaces(vectors: readonly Vector[]): number {
  return placesOf(vectors.flat(), VECTOR_PLACES);
}

/** Scores, weights, sums. */
export function resultPlaces(values: Vector): number {
  return placesOf(values, RESULT_PLACES);
}

/** A number that stands alone. */
export function result(value: number): string {
  return figure(value, placesOf([value], RESULT_PLACES));
}

/** Numbers of a column; nothing at all is "0", unlike what is rounded to it. */
export function columnTexts(values: Vector, most = RESULT_PLACES): readonly string[] {
  const places = placesOf(values, most);
  return values.map((value) => (value === 0 ? "0" : figure(value, places)));
}

/** 2·1 + 0·(−1) + …; of a long sum the first ones and the last. */
export function productsText(a: Vector, b: Vector, most: number): string {
  const places = entryPlaces([a, b]);
  const one = (value: number) => {
    const text = figure(value, places);
    return value < 0 ? `(${text})` : text;
  };
  const { first, between, last } = spellProducts(a, b, most);
  const spelt = (terms: typeof first) => terms.map((t) => `${one(t.left)}·${one(t.right)}`);
  return [...spelt(first), ...(between ? ["…"] : []), ...spelt(last)].join(" + ");
}

/** = where every digit is there, ≈ where one of the numbers was rounded. */
export function equalsSign(entries: readonly Vector[], results: Vector): string {
  const isWhole = (value: number, places: number) =>
    !Number.isFinite(value) || Math.abs(value - Number(value.toFixed(places))) < 1e-12;
  const isExact =
    entries.flat().every((value) => isWhole(value, VECTOR_PLACES)) &&
    results.every((value) => isWhole(value, RESULT_PLACES));
  return isExact ? "=" : "≈";
}

/** (0.84, 0.58, …) */
export function vectorText(values: Vector, most = 8): string {
  const shown = values.slice(0, most);
  const places = resultPlaces(shown);
  const texts = shown.map((value) => figure(value, places));
  return `(${[...texts, ...(values.length > most ? ["…"] : [])].join(", ")})`;
}
