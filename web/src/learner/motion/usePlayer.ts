import type { RefObject } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { indexAt, type Moment, stepFrom, stillOf } from "./timeline";

export const SPEEDS = [0.5, 1, 2] as const;
const STILL = 1500; // ms that a still stays where motion is not wanted

export interface Player {
  readonly time: number;
  readonly isPlaying: boolean;
  readonly isAtEnd: boolean;
  readonly speed: number;
  readonly setSpeed: (speed: number) => void;
  readonly toggle: () => void;
  readonly pause: () => void;
  /** To a time; without motion to the still of the moment it lies in. */
  readonly seek: (time: number) => void;
  readonly step: (direction: 1 | -1) => void;
}

/** The film's clock. It runs only between Play and Pause, and only while the film can be seen. */
export function usePlayer(moments: readonly Moment[], film: RefObject<HTMLElement | null>): Player {
  const [asked, setTime] = useState(0);
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const isStill = useReducedMotion();
  const end = stillOf(moments, moments.length - 1);
  const time = Math.min(asked, end); // fewer keys make a shorter film
  const pause = useCallback(() => setPlaying(false), []);
  useClock({ moments, end, time, isPlaying, isStill, speed, setTime, pause });
  useOutOfSight(film, pause);
  const isAtEnd = time >= end;
  const start = isAtEnd ? 0 : time;
  return {
    time,
    isPlaying,
    isAtEnd,
    speed,
    setSpeed,
    pause,
    toggle: () => {
      if (!isPlaying) setTime(start);
      setPlaying(!isPlaying);
    },
    seek: (to) => {
      pause();
      setTime(isStill ? stillOf(moments, indexAt(moments, to)) : to);
    },
    step: (direction) => {
      pause();
      setTime(stepFrom(moments, time, direction));
    },
  };
}

interface Clock {
  readonly moments: readonly Moment[];
  readonly end: number;
  readonly time: number;
  readonly isPlaying: boolean;
  readonly isStill: boolean;
  readonly speed: number;
  readonly setTime: (time: number) => void;
  readonly pause: () => void;
}

function useClock(clock: Clock): void {
  const now = useRef(clock);
  now.current = clock;
  const { isPlaying, isStill, speed } = clock;
  useEffect(() => {
    if (!isPlaying) return;
    const goTo = (time: number) => {
      now.current.setTime(Math.min(time, now.current.end));
      if (time >= now.current.end) now.current.pause();
    };
    if (isStill) {
      const next = () => goTo(stepFrom(now.current.moments, now.current.time, 1));
      const timer = setInterval(next, STILL / speed);
      return () => clearInterval(timer);
    }
    let [frame, before] = [0, performance.now()];
    const tick = (at: number) => {
      const passed = Math.max(at - before, 0);
      before = at;
      frame = requestAnimationFrame(tick);
      goTo(now.current.time + passed * speed);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, isStill, speed]);
}

/** Nothing plays unseen: on a hidden page, or scrolled away. */
function useOutOfSight(film: RefObject<HTMLElement | null>, pause: () => void): void {
  useEffect(() => {
    const onVisibility = () => document.hidden && pause();
    document.addEventListener("visibilitychange", onVisibility);
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => !entry.isIntersecting)) pause();
    });
    if (film.current) observer.observe(film.current);
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      observer.disconnect();
    };
  }, [film, pause]);
}

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const follow = () => setMatches(media.matches);
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, [query]);
  return matches;
}

function useReducedMotion(): boolean {
  return useMedia("(prefers-reduced-motion: reduce)");
}

/** While the page is being printed. */
export function usePrinting(): boolean {
  const isPrint = useMedia("print");
  const [isAsked, setAsked] = useState(false);
  useEffect(() => {
    const [before, after] = [() => setAsked(true), () => setAsked(false)];
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => {
      removeEventListener("beforeprint", before);
      removeEventListener("afterprint", after);
    };
  }, []);
  return isPrint || isAsked;
}
