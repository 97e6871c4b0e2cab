import { useMemo } from "preact/hooks";
import { figure } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { place } from "../../shell/address";
import type { Comparison, Overview, Stack } from "../../source/answers";
import type { Cell } from "../overview/gridLayout";
import type { Paint } from "../overview/gridPainting";
import { HeadGrid } from "../overview/HeadGrid";
import { distanceGrid, distanceScale } from "./distances";

interface Props {
  readonly overview: Overview;
  readonly stack: Stack;
  readonly found: Comparison;
  readonly chosen: string;
  readonly hasKeys: boolean;
}

/** Every head by its distance; a click shows the two side by side. */
export function DistanceGrid({ overview, stack, found, chosen, hasKeys }: Props) {
  const values = useMemo(() => distanceGrid(found, overview, stack), [found, overview, stack]);
  const paint: Paint = useMemo(
    () => ({ kind: "values", values, scale: distanceScale(found) }),
    [values, found],
  );
  const labels = useMemo(() => {
    const own = overview.heads.filter((one) => one.stack === stack.name);
    return new Map(own.map((one) => [one.layer * stack.heads + one.head, one.label]));
  }, [overview, stack]);
  const labelOf = (cell: Cell) => labels.get(cell.layer * stack.heads + cell.head);
  const at = (cell: Cell) => values[cell.layer]?.[cell.head] ?? Number.NaN;
  return (
    <>
      {stack.name && <h2>{stack.name}</h2>}
      <HeadGrid
        name={stack.name}
        layers={stack.layers}
        heads={stack.heads}
        paint={paint}
        exactness={null}
        start={overview.heads.find((one) => one.label === chosen && one.stack === stack.name)}
        labelOf={labelOf}
        placeOf={(label) => ({ ...place.value, head: label })}
        tip={(cell) => (
          <span>
            <strong>{labelOf(cell) ?? "not recorded"}</strong> distance <Figure value={at(cell)} />
          </span>
        )}
        spoken={(cell) => `${labelOf(cell) ?? "not recorded"}: distance ${figure(at(cell))}`}
        hasKeys={hasKeys}
      />
    </>
  );
}
