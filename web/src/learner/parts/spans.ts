import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { visibleSpan } from "./span";

// Large matrices scroll inside their box, and only what can be seen is put on the page.

/** Rows or columns beyond which a matrix is windowed. */
export const WHOLE = 12;

export interface Span {
  readonly first: number;
  readonly last: number;
}

export function numbersIn(span: Span): number[] {
  return Array.from({ length: span.last - span.first }, (_, n) => span.first + n);
}

interface Spans {
  readonly rows: Span;
  readonly columns: Span;
}

interface Extent {
  readonly rows: number;
  readonly columns: number;
  /** Height of a row and width of a column, in rem. */
  readonly height: number;
  readonly width: number;
}

function remInPixels(): number {
  return Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
}

function measured(box: HTMLElement, of: Extent): Spans {
  const rem = remInPixels();
  return {
    rows: visibleSpan(box.scrollTop, box.clientHeight, of.height * rem, of.rows),
    columns: visibleSpan(box.scrollLeft, box.clientWidth, of.width * rem, of.columns),
  };
}

/** What of the matrix is visible; all of it where it is small. `mark` is scrolled into view. */
export function useSpans(box: RefObject<HTMLElement | null>, of: Extent, mark: number) {
  const isWindowed = of.rows > WHOLE || of.columns > WHOLE;
  const seen = useSignal<Spans>({
    rows: { first: 0, last: Math.min(of.rows, WHOLE) },
    columns: { first: 0, last: Math.min(of.columns, WHOLE) },
  });
  const look = () => {
    if (!box.current) return;
    const next = measured(box.current, of);
    if (JSON.stringify(next) !== JSON.stringify(seen.value)) seen.value = next;
  };
  useLayoutEffect(() => {
    if (!isWindowed || !box.current || mark < 0) return;
    const height = of.height * remInPixels();
    box.current.scrollTop = Math.max(mark * height - box.current.clientHeight / 2, 0);
    look();
  }, [isWindowed, mark]);
  useEffect(() => {
    if (isWindowed) look();
  });
  const all: Spans = {
    rows: { first: 0, last: of.rows },
    columns: { first: 0, last: of.columns },
  };
  return { isWindowed, spans: isWindowed ? seen.value : all, look };
}
