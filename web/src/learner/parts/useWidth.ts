import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

/** The width of an element in pixels, as it changes: text in a picture keeps its size. */
export function useWidth<T extends HTMLElement>(start: number) {
  const ref = useRef<T>(null);
  const width = useSignal(start);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const watch = new ResizeObserver(([entry]) => {
      if (entry && entry.contentRect.width > 0) width.value = Math.round(entry.contentRect.width);
    });
    watch.observe(element);
    return () => watch.disconnect();
  }, [width]);
  return { ref, width: width.value };
}
