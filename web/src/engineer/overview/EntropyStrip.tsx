import { figure } from "../../maths/format";
import type { Grid } from "../../source/answers";
import type { GridLayout } from "./gridLayout";
import { entropyByLayer } from "./statistics";

const EDGE = 8;

interface Props {
  readonly grid: Grid | null;
  readonly layout: GridLayout;
  readonly width: number;
}

/** Beside each layer of the grid: how evenly its heads look, from one key (0) to all alike (1). */
export function EntropyStrip({ grid, layout, width }: Props) {
  const layers = entropyByLayer(grid);
  if (!layers.some(Boolean)) return null;
  const at = (share: number) => EDGE + share * (width - 2 * EDGE);
  const middle = (layer: number) => layout.top + layer * layout.step + layout.size / 2;
  return (
    <figure class="entropy" data-part="entropy-strip" style={{ width: `${width}px` }}>
      <svg
        width={width}
        height={layout.height}
        role="img"
        aria-label="Entropy of each layer's heads: least, median and largest"
      >
        {[0, 0.5, 1].map((share) => (
          <g key={share}>
            <line
              class="entropy-grid"
              x1={at(share)}
              x2={at(share)}
              y1={layout.top}
              y2={layout.height}
            />
            <text x={at(share)} y={layout.top - 6} text-anchor="middle">
              {share}
            </text>
          </g>
        ))}
        {layers.map(
          (one, layer) =>
            one && (
              <g key={layer}>
                <title>{`L${layer}: ${figure(one.low)} to ${figure(one.high)}, median ${figure(one.middle)}`}</title>
                <line
                  class="entropy-span"
                  x1={at(one.low)}
                  x2={at(one.high)}
                  y1={middle(layer)}
                  y2={middle(layer)}
                />
                <circle class="entropy-middle" cx={at(one.middle)} cy={middle(layer)} r="2.6" />
              </g>
            ),
        )}
      </svg>
      <figcaption>entropy per layer</figcaption>
    </figure>
  );
}
