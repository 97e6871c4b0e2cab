import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

/**
 * How much room the content of an element has across, in pixels, now and when that changes.
 * `start` is believed until it is there; it is measured before anything is painted.
 */
export function useWidth(of: RefObject<HTMLElement | null>, start = 0): number {
  const [width, setWidth] = useState(start);
  useLayoutEffect(() => {
    const element = of.current;
    if (!element) return;
    const measure = () => {
      const room = roomIn(element);
      if (room > 0) setWidth(room); // 0 while a tab hides it
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [of]);
  return width;
}

function roomIn(element: HTMLElement): number {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  return Math.round(
    element.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight),
  );
}

/** How tall the window is, now and when that changes. */
export function useWindowHeight(): number {
  const [height, setHeight] = useState(innerHeight);
  useEffect(() => {
    const follow = () => setHeight(innerHeight);
    addEventListener("resize", follow);
    return () => removeEventListener("resize", follow);
  }, []);
  return height;
}
