import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { pathBetween, type Spot } from "./arcs";
import { isSpecial, wordText } from "./spelling";
import type { Heavy } from "./weights";

interface Props {
  readonly name: string;
  readonly texts: readonly string[];
  /** The word that is looked at; null for none. */
  readonly row: number | null;
  readonly pinned: number | null;
  readonly heavy: readonly Heavy[];
  /** Keys that the row may not see. */
  readonly cut: ReadonlySet<number>;
  /** Words behind the prompt that the model was given one by one. */
  readonly fresh: number;
  /** From where on the words are of the second sentence. */
  readonly second?: number;
  readonly onHover: (row: number | null) => void;
  readonly onPin: (row: number | null) => void;
  /** A word that is read was clicked while another is pinned. */
  readonly onKey: (key: number) => void;
  /** Of another prompt: it is marked, and reads nothing here. */
  readonly linked?: number | null;
}

function numberOf(target: EventTarget | null): number | null {
  const word = target instanceof Element ? target.closest("[data-word]") : null;
  return word instanceof HTMLElement ? Number(word.dataset.word) : null;
}

/** The prompt's words; arcs go from the one that is looked at to those it reads. */
export function Words(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { texts, row, pinned } = props;
  const step = (by: number) => {
    const next = Math.min(Math.max((row ?? texts.length) + by, 0), texts.length - 1);
    if (pinned === null) props.onHover(next);
    else props.onPin(next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -texts.length, End: texts.length }[event.key];
    if (by !== undefined) step(by);
    else if (event.key === "Enter" || event.key === " ") props.onPin(pinned === row ? null : row);
    else if (event.key === "Escape") props.onPin(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const scroll = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const own = scroll.current; // a long prompt begins with its last word, whose arcs are shown
    if (own && pinned === null) own.scrollTop = own.scrollHeight;
  }, [texts]);
  return (
    <div class="play-words-scroll" data-part="words-scroll" ref={scroll}>
      <div
        class="play-words"
        ref={box}
        role="listbox"
        tabIndex={0}
        aria-label={props.name}
        aria-activedescendant={row === null ? undefined : `${props.name}-${row}`}
        data-part="words"
        onPointerMove={(event) => {
          if (event.pointerType !== "touch") props.onHover(numberOf(event.target));
        }}
        onPointerLeave={() => props.onHover(null)}
        onClick={(event) => {
          const word = numberOf(event.target);
          if (word === null) return;
          if (event.shiftKey && row !== null) props.onKey(word);
          else props.onPin(word === pinned ? null : word);
        }}
        onKeyDown={onKeyDown}
      >
        <Overlay {...props} box={box} />
        <Tokens {...props} />
      </div>
    </div>
  );
}

/** The words alone: they stay as they are while arcs move, however many there are. */
function Tokens({ name, texts, pinned, fresh, second }: Props) {
  return useMemo(() => {
    const first = texts.length - fresh;
    return texts.map((text, n) => (
      <span
        key={n}
        id={`${name}-${n}`}
        data-word={n}
        role="option"
        tabIndex={-1}
        aria-selected={n === pinned}
        class={[
          "play-word",
          n >= first && "is-fresh",
          isSpecial(text) && "is-special",
          second !== undefined && n >= second && "is-second",
        ]
          .filter(Boolean)
          .join(" ")}
      >
        {wordText(text)}
      </span>
    ));
  }, [name, texts, pinned, fresh, second]);
}

interface Drawn {
  readonly from: Spot | null;
  readonly mark: Spot | null;
  readonly to: readonly (Spot & Heavy)[];
  readonly cut: readonly Spot[];
}

interface OverlayProps extends Props {
  readonly box: { readonly current: HTMLDivElement | null };
}

/** Shades and arcs, measured where the words stand. */
function Overlay({ box, row, pinned, linked, heavy, cut, texts }: OverlayProps) {
  const size = useSignal({ width: 0, height: 0 });
  const drawn = useSignal<Drawn>({ from: null, mark: null, to: [], cut: [] });
  useLayoutEffect(() => {
    const own = box.current;
    if (!own) return;
    const observer = new ResizeObserver(() => {
      size.value = { width: own.clientWidth, height: own.scrollHeight };
    });
    observer.observe(own);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const own = box.current;
    if (!own) return;
    const spot = (n: number): Spot | null => {
      const word = own.children[n + 1]; // behind the arcs
      // of a word whose space ends a line, the part that can be read is the last
      const at = [...(word?.getClientRects() ?? [])].at(-1);
      if (!at) return null;
      const corner = own.getBoundingClientRect();
      return {
        x: at.left - corner.left - own.clientLeft + own.scrollLeft,
        y: at.top - corner.top - own.clientTop + own.scrollTop,
        width: at.width,
        height: at.height,
      };
    };
    drawn.value = {
      from: row === null ? null : spot(row),
      mark: typeof linked === "number" ? spot(linked) : null,
      to: heavy.flatMap((one) => {
        const at = spot(one.key);
        return at ? [{ ...at, ...one }] : [];
      }),
      cut: [...cut].flatMap((key) => spot(key) ?? []),
    };
  }, [row, linked, heavy, cut, texts, size.value]);
  const { from, mark, to, cut: gone } = drawn.value;
  return (
    <svg
      class="play-arcs"
      width={size.value.width}
      height={size.value.height}
      aria-hidden="true"
      data-part="arcs"
    >
      {to.map((one) => (
        <rect
          key={`s${one.key}`}
          class="shade"
          x={one.x - 1}
          y={one.y}
          width={one.width + 2}
          height={one.height}
          rx={5}
          fill-opacity={shadeOf(one.weight)}
        />
      ))}
      {from && <rect class={pinned === row ? "row pinned" : "row"} {...frameOf(from)} />}
      {mark && <rect class="linked" {...frameOf(mark)} />}
      {gone.map((one, n) => (
        <path key={`c${n}`} class="cut" d={crossOf(one)} />
      ))}
      {from &&
        [...to]
          .reverse()
          .map((one) => (
            <path
              key={`a${one.key}`}
              class="arc"
              data-key={one.key}
              data-value={String(one.weight)}
              d={pathBetween(from, one)}
              stroke-width={1.2 + 5 * one.weight}
              stroke-opacity={0.25 + 0.7 * Math.sqrt(Math.min(one.weight, 1))}
            />
          ))}
    </svg>
  );
}

function shadeOf(weight: number): number {
  return 0.1 + 0.6 * Math.sqrt(Math.min(weight, 1));
}

function frameOf({ x, y, width, height }: Spot) {
  return { x: x - 1, y, width: width + 2, height, rx: 5 };
}

function crossOf({ x, y, width, height }: Spot): string {
  const middle = y + height / 2 + 1;
  return `M ${x} ${middle} h ${width}`;
}
