import { count } from "../../maths/format";
import { keysHolding, type Mass } from "./mass";

const [WIDTH, HEIGHT, FOOT, LEFT] = [320, 150, 18, 34] as const;
const POINTS = 160;
export const SHARES = [0.5, 0.9, 0.99] as const;

/** Where a number of keys stands, along a log axis. */
function across(keys: number, most: number): number {
  const part = most <= 1 ? 0.5 : Math.log(Math.max(keys, 1)) / Math.log(most);
  return LEFT + part * (WIDTH - LEFT - 8);
}

function up(share: number): number {
  return 6 + (1 - share) * (HEIGHT - FOOT - 6);
}

/** "x,y x,y …": what the n heaviest keys hold together, for n along a log axis. */
export function massLine(mass: Mass): string {
  const most = mass.sums.length;
  const counts = Array.from({ length: POINTS }, (_, n) => Math.round(most ** (n / (POINTS - 1))));
  return [...new Set(counts)]
    .map((keys) => {
      const share = (mass.sums[keys - 1] ?? 0) / (mass.total || 1);
      return `${across(keys, most).toFixed(1)},${up(share).toFixed(1)}`;
    })
    .join(" ");
}

/** How many keys hold how much of the row. */
export function Cumulative({ mass }: { mass: Mass }) {
  const most = mass.sums.length;
  if (most === 0) return null;
  return (
    <figure class="row-mass" data-part="mass">
      <figcaption>Weight held by the heaviest keys (log count)</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={massWords(mass)}>
        {SHARES.map((share) => (
          <g key={share}>
            <line class="grid" x1={LEFT} x2={WIDTH} y1={up(share)} y2={up(share)} />
            <text x={LEFT - 5} y={up(share) + (share === 0.9 ? 8 : 3)} text-anchor="end">
              {Math.round(share * 100)} %
            </text>
            <Held mass={mass} keys={keysHolding(mass, share)} />
          </g>
        ))}
        <polyline points={massLine(mass)} />
        <line class="base" x1={LEFT} x2={WIDTH} y1={HEIGHT - FOOT} y2={HEIGHT - FOOT} />
        {[1, 10, 100, 1000, 10_000, 100_000]
          .filter((keys) => keys <= most)
          .map((keys) => (
            <text
              key={keys}
              x={across(keys, most)}
              y={HEIGHT - 4}
              text-anchor={across(keys, most) > WIDTH - 20 ? "end" : "middle"}
            >
              {keys < 1000 ? keys : `${keys / 1000}k`}
            </text>
          ))}
      </svg>
    </figure>
  );
}

function Held({ mass, keys }: { mass: Mass; keys: number }) {
  const share = (mass.sums[keys - 1] ?? 0) / (mass.total || 1);
  return <circle cx={across(keys, mass.sums.length)} cy={up(share)} r={3.5} />;
}

export function massWords(mass: Mass): string {
  const parts = SHARES.map((share) => {
    const keys = keysHolding(mass, share);
    return `${count(keys)} ${keys === 1 ? "key holds" : "keys hold"} ${Math.round(share * 100)}\u00a0%`;
  });
  return parts.join(", ");
}
