import { useMemo } from "preact/hooks";
import { figure } from "../../maths/format";
import { theme } from "../../shell/theme";
import type { HeadShort, Overview, Stack } from "../../source/answers";
import type { Thumbnails } from "../../source/binary";
import type { Where } from "../../source/source";
import { rgbOf } from "../head/inks";
import { headPlace } from "../places";
import { atlasOf } from "./atlas";
import { CellPanel, CellTip } from "./CellPanel";
import { EntropyStrip } from "./EntropyStrip";
import type { Cell } from "./gridLayout";
import type { Exactness, Paint } from "./gridPainting";
import { HeadGrid } from "./HeadGrid";
import { scaleOf, titleOf, valueAt } from "./statistics";

interface Props {
  readonly overview: Overview;
  readonly where: Where;
  readonly stack: Stack;
  readonly show: "pictures" | "numbers";
  readonly statistic: string;
  readonly thumbnails: Thumbnails | undefined;
  /** What is said of a head that is not here. */
  readonly absent: string;
  /** The head that is meant before anybody points. */
  readonly first: string | null;
  /** Labels of the heads that a filter lets through; null for all. */
  readonly among: ReadonlySet<string> | null;
  readonly hasKeys: boolean;
  readonly onDrawn: () => void;
  /** Whoever is pointed at gets the arrow keys. */
  readonly onActive: (stack: string) => void;
}

/** One stack of layers: its heads as pictures or as one number each. */
export function StackGrid(props: Props) {
  const { overview, where, stack, statistic, thumbnails } = props;
  const known = useMemo(() => byCell(overview, stack), [overview, stack]);
  const at = (cell: Cell) => known.get(cell.layer * stack.heads + cell.head);
  const paint = usePaint(props);
  const exactness = useMemo(() => exactnessOf(known, stack), [known, stack]);
  const value = (cell: Cell) => valueAt(stack, statistic, cell.layer, cell.head);
  const spoken = (cell: Cell) => {
    const head = at(cell);
    if (!head) return `layer ${cell.layer}, head ${cell.head} ${props.absent}`;
    return `${head.label}: ${titleOf(overview, statistic)} ${figure(value(cell))}`;
  };
  const about = (cell: Cell) => ({
    cell,
    head: at(cell),
    where,
    absent: props.absent,
    statistic,
    stack,
    thumbnails,
    overview,
  });
  const panel = (cell: Cell) => <CellPanel {...about(cell)} />;
  return (
    <HeadGrid
      name={stack.name}
      layers={stack.layers}
      heads={stack.heads}
      paint={paint}
      exactness={exactness}
      start={startOf(overview, stack, props.first)}
      isFaint={(cell) => {
        const label = at(cell)?.label;
        return props.among !== null && label !== undefined && !props.among.has(label);
      }}
      filter={props.among && [...props.among].join()}
      labelOf={(cell) => at(cell)?.label}
      placeOf={(label) => headPlace(where, label)}
      tip={(cell) => <CellTip {...about(cell)} />}
      {...(overview.stacks.length === 1 ? { panel } : {})}
      onActive={() => props.onActive(stack.name)}
      spoken={spoken}
      hasKeys={props.hasKeys}
      onDrawn={props.onDrawn}
      beside={(layout, width) => (
        <EntropyStrip grid={stack.grids.normalized_entropy ?? null} {...{ layout, width }} />
      )}
    />
  );
}

function startOf(overview: Overview, stack: Stack, first: string | null): HeadShort | undefined {
  const own = overview.heads.filter((one) => one.stack === stack.name);
  return own.find((one) => one.label === first) ?? own[0];
}

function byCell(overview: Overview, stack: Stack): ReadonlyMap<number, HeadShort> {
  const own = overview.heads.filter((one) => one.stack === stack.name);
  return new Map(own.map((one) => [one.layer * stack.heads + one.head, one]));
}

function usePaint({ overview, stack, show, statistic, thumbnails }: Props): Paint | null {
  const shown = theme.value; // the colour of what is hidden follows it
  return useMemo(() => {
    if (show === "numbers") {
      const values = stack.grids[statistic] ?? [];
      return { kind: "values", values, scale: scaleOf(statistic, overview) };
    }
    if (!thumbnails) return null;
    const style = getComputedStyle(document.documentElement);
    const hidden = rgbOf(style.getPropertyValue("--hidden"));
    return {
      kind: "pictures",
      given: thumbnails,
      atlas: atlasOf(thumbnails, overview.scale, hidden),
    };
  }, [overview, stack, show, statistic, thumbnails, shown]);
}

function exactnessOf(known: ReadonlyMap<number, HeadShort>, stack: Stack): readonly Exactness[] {
  return Array.from({ length: stack.layers }, (_, layer) => {
    const heads = Array.from({ length: stack.heads }, (_, head) =>
      known.get(layer * stack.heads + head),
    );
    const exact = heads.filter((one) => one?.exact).length;
    if (exact === 0) return "none";
    return exact === heads.filter(Boolean).length ? "all" : "some";
  });
}
