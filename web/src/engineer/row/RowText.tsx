import { type Signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { useWidth } from "../../parts/useWidth";
import type { TokenBook } from "../head/tokenBook";
import { Chunk, type Shading } from "./Chunk";
import { CHUNK, estimate, Heights, type Page } from "./chunks";

interface Props {
  readonly book: TokenBook;
  readonly total: number;
  readonly shading: Shading;
  /** The key that is read out. */
  readonly looked: Signal<number | null>;
  /** Asks for a key to be brought into view. */
  readonly target: Signal<{ readonly key: number } | null>;
  /** Where a token's own row is; null where it has none. */
  readonly rowOf: (key: number) => string | null;
}

const LINE = 28; // as in row.css
const LETTER = 8.5;
const GUTTER = 64;
const SPARE = 600; // pixels of text kept above and below the screen

/** The prompt, shaded by the weights of one row. */
export function RowText({ book, total, shading, looked, target, rowOf }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const measured = useSignal(0);
  const wide = useWidth(box);
  const page: Page = { letters: Math.max((wide - GUTTER) / LETTER, 12), line: LINE };
  const count = Math.ceil(total / CHUNK);
  const heights = useMemo(
    () => new Heights(count, estimate(new Array(CHUNK), page)),
    [count, wide],
  );
  measured.value;
  book.news.value;
  const [first, stop] = heights.within(
    top.value - SPARE,
    (box.current?.clientHeight ?? 600) + 2 * SPARE,
  );
  useLayoutEffect(() => {
    if (!box.current || wide === 0) return;
    if (measure(box.current, heights)) measured.value += 1;
    if (target.value) reach(box.current, heights, book, target, top);
  });
  const shown = Array.from({ length: stop - first }, (_, n) => first + n);
  return (
    <section
      class="row-text"
      ref={box}
      data-part="row-text"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
      tabIndex={0}
      aria-label="The prompt, shaded by weight"
      onScroll={(event) => (top.value = event.currentTarget.scrollTop)}
      onPointerOver={(event) => {
        const key = (event.target as HTMLElement).dataset.key;
        if (key !== undefined) looked.value = Number(key);
      }}
    >
      <div style={{ height: `${heights.top(first)}px` }} />
      {wide > 0 &&
        shown.map((n) => (
          <Chunk
            key={n}
            {...{ n, total, book, shading, looked, rowOf, guess: heights.height(n) }}
          />
        ))}
      <div style={{ height: `${Math.max(heights.total - heights.top(stop), 0)}px` }} />
    </section>
  );
}

/** Replace estimates by what is there; what stands above the screen pushes nothing down. */
function measure(box: HTMLElement, heights: Heights): boolean {
  let changed = false;
  let pushed = 0;
  for (const chunk of box.querySelectorAll<HTMLElement>("[data-chunk]")) {
    const n = Number(chunk.dataset.chunk);
    if (chunk.dataset.waiting !== undefined) continue;
    const isAbove = heights.top(n + 1) <= box.scrollTop + pushed;
    const change = heights.set(n, chunk.offsetHeight);
    if (Math.abs(change) >= 1) changed = true;
    if (isAbove) pushed += change;
  }
  if (Math.abs(pushed) >= 1) box.scrollTop += pushed;
  return changed;
}

/** Scroll to the key: first to its piece, then, when its text is there, to itself. */
function reach(
  box: HTMLElement,
  heights: Heights,
  book: TokenBook,
  target: Signal<{ readonly key: number } | null>,
  top: Signal<number>,
): void {
  const key = target.peek()?.key ?? 0;
  const at = box.querySelector<HTMLElement>(`[data-key="${key}"]`);
  if (!at) {
    book.text(key);
    box.scrollTop = heights.top(Math.floor(key / CHUNK));
    top.value = box.scrollTop;
    return;
  }
  const [own, around] = [at.getBoundingClientRect(), box.getBoundingClientRect()];
  const isSeen = own.top >= around.top && own.bottom <= around.bottom;
  if (!isSeen) box.scrollTop += own.top - around.top - around.height / 2;
  target.value = null;
}
