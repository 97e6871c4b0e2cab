import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { count, figure } from "../../maths/format";
import { roundStep } from "../head/axis";
import type { Heavy } from "./mass";

export interface ArcScene {
  /** Of the axis: the first key, and the one after the last. */
  readonly span: readonly [number, number];
  /** The query's place on the same axis; null where it is not one of the keys. */
  readonly query: number | null;
  readonly top: readonly Heavy[];
}

export interface Arc extends Heavy {
  /** Of an SVG path. */
  readonly path: string;
  readonly width: number;
  readonly opacity: number;
}

export const ARC_HEIGHT = 132;
const FOOT = 22;
const BASE = ARC_HEIGHT - FOOT;
const PAD = 10;

export function placeOn(key: number, scene: ArcScene, width: number): number {
  const [first, stop] = scene.span;
  return PAD + ((key + 0.5 - first) / Math.max(stop - first, 1)) * (width - 2 * PAD);
}

/** From the query to each of its heaviest keys; lightest first, so that the heaviest are on top. */
export function arcsOf(scene: ArcScene, width: number): Arc[] {
  return scene.top
    .map(({ key, weight }) => ({
      ...{ key, weight, path: pathTo(key, scene, width) },
      width: 1 + 6 * weight,
      opacity: 0.25 + 0.7 * Math.sqrt(Math.min(weight, 1)),
    }))
    .reverse();
}

function pathTo(key: number, scene: ArcScene, width: number): string {
  const to = placeOn(key, scene, width);
  if (scene.query === null) {
    const from = width / 2; // the query is of another text: it stands above
    return `M ${from.toFixed(1)} 8 L ${to.toFixed(1)} ${BASE}`;
  }
  const from = placeOn(scene.query, scene, width);
  if (Math.abs(from - to) < 1) {
    return `M ${from.toFixed(1)} ${BASE} c -8 -22 8 -22 0 0`;
  }
  const share = Math.abs(from - to) / (width - 2 * PAD);
  const high = BASE - 14 - (BASE - 22) * Math.sqrt(share) * 1.3;
  return `M ${from.toFixed(1)} ${BASE} C ${from.toFixed(1)} ${high.toFixed(1)} ${to.toFixed(1)} ${high.toFixed(1)} ${to.toFixed(1)} ${BASE}`;
}

export function arcTicks(scene: ArcScene, width: number): readonly (readonly [number, string])[] {
  const [first, stop] = scene.span;
  const step = roundStep(((stop - first) / width) * 80);
  const start = Math.ceil(first / step) * step;
  const many = Math.max(Math.ceil((stop - start) / step), 0);
  return Array.from({ length: many }, (_, n) => {
    const key = start + n * step;
    return [placeOn(key, scene, width), count(key)] as const;
  });
}

export const ARC_BASE = BASE;

interface Props {
  readonly scene: ArcScene;
  readonly looked: number | null;
  readonly onLook: (key: number) => void;
}

export function Arcs({ scene, looked, onLook }: Props) {
  const box = useRef<SVGSVGElement>(null);
  const width = useSignal(0);
  useEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(([entry]) => {
      width.value = entry?.contentRect.width ?? 0;
    });
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return (
    <svg
      class="row-arcs"
      ref={box}
      height={ARC_HEIGHT}
      data-part="arcs"
      role="img"
      aria-label={`From the query to its ${scene.top.length} heaviest keys`}
    >
      {width.value > 0 && (
        <>
          <ArcAxis scene={scene} width={width.value} />
          {arcsOf(scene, width.value).map((arc) => (
            <ArcLine key={arc.key} arc={arc} isLooked={arc.key === looked} onLook={onLook} />
          ))}
        </>
      )}
    </svg>
  );
}

function ArcAxis({ scene, width }: { scene: ArcScene; width: number }) {
  const isAbove = scene.query === null;
  const x = scene.query === null ? width / 2 : placeOn(scene.query, scene, width);
  return (
    <>
      <line class="base" x1={0} x2={width} y1={BASE} y2={BASE} />
      {arcTicks(scene, width).map(([at, text]) => (
        <text
          key={text}
          x={at}
          y={BASE + 16}
          text-anchor={at < 16 ? "start" : at > width - 24 ? "end" : "middle"}
        >
          {text}
        </text>
      ))}
      <circle class="query" cx={x} cy={isAbove ? 6 : BASE} r={isAbove ? 5 : 4} />
    </>
  );
}

interface LineProps {
  readonly arc: Arc;
  readonly isLooked: boolean;
  readonly onLook: (key: number) => void;
}

function ArcLine({ arc, isLooked, onLook }: LineProps) {
  return (
    <path
      class={isLooked ? "arc looked" : "arc"}
      d={arc.path}
      stroke-width={arc.width}
      stroke-opacity={isLooked ? 1 : arc.opacity}
      data-key={arc.key}
      data-value={String(arc.weight)}
      onPointerEnter={() => onLook(arc.key)}
    >
      <title>{`key ${arc.key}: ${figure(arc.weight, 6)}`}</title>
    </path>
  );
}
