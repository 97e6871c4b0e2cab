import { useEffect } from "preact/hooks";
import { count } from "../../maths/format";
import { Legend } from "../../parts/Legend";
import { place } from "../../shell/address";
import type { Comparison, Overview } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { inOrder } from "../overview/facts";
import { naturalWidth } from "../overview/gridLayout";
import { markReady } from "../states/ready";
import { DistanceGrid } from "./DistanceGrid";
import { DistanceTable } from "./DistanceTable";
import { distanceScale } from "./distances";
import { SideBySide } from "./SideBySide";
import { TwoHeads } from "./TwoHeads";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly other: Where;
  readonly overview: Overview;
  readonly found: Comparison;
}

const WORDS =
  "Jensen–Shannon, 0 for equal rows, 1 for rows that share no key; the mean over rows that stand " +
  "for each other";

/** How far every head is from the head of the same name. */
export function Result(props: Props) {
  const { overview, found } = props;
  useEffect(() => markReady("compare"), [found]);
  const chosen = found.heads.find((one) => one.label === place.value.head) ?? found.heads[0];
  return (
    <>
      <p class="soft" data-part="alignment">
        {count(found.heads.length)} heads that both have; {found.alignment}.
        <Only name={found.a.name} labels={found.only_a} />
        <Only name={found.b.name} labels={found.only_b} />
      </p>
      {found.doubts.map((doubt) => (
        <p key={doubt} class="notice warning" data-part="doubt">
          {doubt}
        </p>
      ))}
      <div class="comp-columns" style={{ "--comp-grid": `${widest(overview)}px` }}>
        <section aria-label="Distance of every head">
          {inOrder(overview.stacks).map((stack, n) => (
            <DistanceGrid
              key={stack.name}
              {...{ overview, stack, found }}
              chosen={chosen?.label ?? ""}
              hasKeys={n === 0}
            />
          ))}
          <Legend scale={distanceScale(found)} words={WORDS} />
        </section>
        <section class="comp-detail">
          {chosen && <SideBySide {...props} chosen={chosen} />}
          <DistanceTable found={found} chosen={chosen?.label ?? ""} />
        </section>
      </div>
      {chosen && <Beside {...props} label={chosen.label} />}
    </>
  );
}

/** The chosen head of one, and any head of the other. */
function Beside({ source, where, other, found, label }: Props & { readonly label: string }) {
  const labels = found.heads.map((one) => one.label).sort(inNumbers);
  const { second = "" } = place.value;
  return (
    <TwoHeads
      source={source}
      left={{ where, labels, label, name: found.a.name, word: "head" }}
      right={{
        ...{ labels, where: other, name: found.b.name, word: "second" },
        label: labels.includes(second) ? second : label,
      }}
    />
  );
}

/** L2H0 before L10H0. */
function inNumbers(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

/** Of the grids of all stacks. */
function widest(overview: Overview): number {
  const sizes = overview.stacks.map(({ layers, heads }) => naturalWidth(layers, heads));
  return Math.max(...sizes, LEGEND_WIDTH);
}

const LEGEND_WIDTH = 280;
const MOST = 4;

function Only({ name, labels }: { name: string; labels: readonly string[] }) {
  if (!labels.length) return null;
  const more = labels.length > MOST ? ` and ${count(labels.length - MOST)} more` : "";
  return ` Only in ${name}: ${labels.slice(0, MOST).join(", ")}${more}.`;
}
