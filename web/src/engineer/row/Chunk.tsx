import type { Signal } from "@preact/signals";
import { shareOf } from "../../colour/scale";
import { figure, short } from "../../maths/format";
import { theme } from "../../shell/theme";
import type { Scale } from "../../source/answers";
import { isBroken } from "../../source/binary";
import { legible, shortened, spelledIfKnown } from "../head/spelling";
import type { TokenBook } from "../head/tokenBook";
import { CONTINUED } from "../words";
import { CHUNK } from "./chunks";
import { textStyle } from "./textStyle";

const MOST_LETTERS = 120; // of a token

export interface Shading {
  /** NaN where the row may not look, ∞ where it is no number; null where single weights are not known. */
  readonly weights: Float32Array | null;
  /** Known weights of some keys, where the others are not. */
  readonly some: ReadonlyMap<number, number>;
  readonly visible: number;
  readonly scale: Scale;
  /** The token that looks, where it is one of these. */
  readonly query: number | null;
}

interface Props {
  readonly n: number;
  readonly total: number;
  readonly book: TokenBook;
  readonly shading: Shading;
  readonly looked: Signal<number | null>;
  /** Where a token's own row is; null where it has none. */
  readonly rowOf: (key: number) => string | null;
  /** CSS pixels that it takes until its text is there. */
  readonly guess: number;
}

export function weightAt(shading: Shading, key: number): number | undefined {
  return shading.weights ? shading.weights[key] : shading.some.get(key);
}

/** A piece of the text, with the number of its first token beside it. */
export function Chunk({ n, total, book, shading, looked, rowOf, guess }: Props) {
  book.news.value;
  const first = n * CHUNK;
  const stop = Math.min(first + CHUNK, total);
  const texts = Array.from({ length: stop - first }, (_, at) => book.text(first + at));
  const own = looked.value;
  const at = own !== null && own >= first && own < stop ? own : null;
  if (texts[0] === undefined) {
    return <div data-chunk={n} data-waiting="" style={{ height: `${guess}px` }} />;
  }
  return (
    <div class="row-chunk" data-chunk={n}>
      <span class="row-number" aria-hidden="true">
        {first}
      </span>
      <p>
        {texts.map((text, k) => (
          <Token
            key={k}
            n={first + k}
            text={text}
            weight={weightAt(shading, first + k)}
            shading={shading}
            isLooked={at === first + k}
            to={rowOf(first + k)}
          />
        ))}
      </p>
    </div>
  );
}

interface TokenProps {
  readonly n: number;
  readonly text: string | null | undefined;
  readonly weight: number | undefined;
  readonly shading: Shading;
  readonly isLooked: boolean;
  /** Its own row; null where it has none. */
  readonly to: string | null;
}

function Token({ n, text, weight, shading, isLooked, to }: TokenProps) {
  if (text === undefined) return null;
  const isHidden = weight !== undefined && Number.isNaN(weight);
  const isNumber = weight !== undefined && Number.isFinite(weight);
  const Tag = to === null ? "span" : "a";
  const names = ["row-token"];
  if (text === CONTINUED) names.push("continued");
  if (isHidden) names.push("hidden");
  if (weight !== undefined && isBroken(weight)) names.push("broken");
  if (n === shading.query) names.push("query");
  if (isLooked) names.push("looked");
  const share = isNumber ? shareOf(weight * shading.visible, shading.scale) : 0;
  return (
    <>
      <Tag
        {...(to === null ? {} : { href: to, tabIndex: -1 })}
        class={names.join(" ")}
        style={textStyle(share, theme.value)}
        data-key={n}
        data-value={weight === undefined ? undefined : String(weight)}
        title={titleOf(n, text, weight, shading.visible)}
      >
        {text === null ? ` [${n}]` : legible(shortened(text, MOST_LETTERS)).replaceAll("\n", "⏎")}
      </Tag>
      {text?.includes("\n") && <br />}
    </>
  );
}

function titleOf(
  n: number,
  text: string | null,
  weight: number | undefined,
  visible: number,
): string {
  const name = `key ${n} ${shortened(spelledIfKnown(text), MOST_LETTERS)}`;
  if (weight === undefined) return `${name}: not known`;
  if (Number.isNaN(weight)) return `${name}: hidden`;
  if (isBroken(weight)) return `${name}: no number (NaN)`;
  return `${name}: ${figure(weight, 6)}, ${short(weight * visible)} × even share`;
}
