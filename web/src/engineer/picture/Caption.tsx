import { percent } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import type { Overlay } from "../../source/binary";
import { Weight } from "../head/Weight";
import type { Scene, Spot } from "./choice";
import { type AxisParts, isGrid, sizeOf } from "./layout";
import { heaviestOf, massOf } from "./shades";

const FEW = 0.001;

interface Props {
  readonly scene: Scene;
  readonly spot: Spot;
  readonly looks: boolean;
  readonly isPinned: boolean;
  /** The position whose weight is read; of the other side. */
  readonly read: number | null;
  readonly overlay: Overlay | undefined;
  readonly name: (side: Spot["side"], position: number) => string;
}

/** What is seen, in words and exact numbers. */
export function Caption({ scene, spot, looks, isPinned, read, overlay, name }: Props) {
  const other = looks ? "keys" : "queries";
  const axis = scene[other];
  const own = scene.isOne ? spot.position : null;
  const most = overlay ? heaviestOf(overlay.weights) : null;
  const shown = read ?? most?.position ?? null;
  const said = looks ? "looks at" : "is looked at by";
  const who = name(spot.side, spot.position);
  return (
    <div class="pic-caption" data-part="picture-caption">
      <p>
        <strong class={looks ? "q" : "k"}>{who}</strong> {said}{" "}
        {shown === null || !overlay ? (
          "…"
        ) : (
          <>
            <strong class={looks ? "k" : "q"}>{name(other, shown)}</strong>
            {read === null && <span class="soft"> most</span>}:{" "}
            <Reading overlay={overlay} position={shown} />
          </>
        )}
        {isPinned && <span class="pic-pin">pinned; Esc lets go</span>}
      </p>
      {overlay && (
        <p class="soft">
          {own !== null && shown !== own && (
            <>
              Itself: <Reading overlay={overlay} position={own} />.{" "}
            </>
          )}
          {overlay.weights.length === sizeOf(axis) && masses(axis, overlay.weights, looks)}
        </p>
      )}
    </div>
  );
}

export function Reading({ overlay, position }: { overlay: Overlay; position: number }) {
  const weight = overlay.weights[position] ?? Number.NaN;
  if (Number.isNaN(weight)) return <span class="soft">hidden by the mask</span>;
  return (
    <span data-part="picture-weight" data-position={position} data-value={String(weight)}>
      <Weight value={weight} />, <Figure value={overlay.times[position] ?? Number.NaN} places={2} />{" "}
      × even share
    </span>
  );
}

/** How a row's weight divides between pictures, their extra tokens, and text. */
export function masses(axis: AxisParts, weights: Float32Array, looks: boolean): string {
  if (!looks) return "";
  const sums = new Map<string, number>();
  const add = (what: string, mass: number) => sums.set(what, (sums.get(what) ?? 0) + mass);
  for (const part of axis) {
    const prefix = isGrid(part) ? part.grid.prefix.length : 0;
    if (prefix) add(prefixWords(part), massOf(weights, part.start, prefix));
    const words = { grid: "patches", text: "text", frames: "sound", other: "others" }[part.kind];
    add(words, massOf(weights, part.start + prefix, part.count - prefix));
  }
  if (sums.size < 2) return "";
  return `In all: ${[...sums].map(([what, mass]) => `${what} ${mass < FEW ? "< 0.1 %" : percent(mass)}`).join(", ")}.`;
}

function prefixWords(part: AxisParts[number]): string {
  const [first, ...more] = part.grid?.prefix ?? [];
  return more.length ? `${first} and ${more.length} more` : (first ?? "");
}
