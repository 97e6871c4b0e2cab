import { useState } from "preact/hooks";
import { Figure } from "../../parts/Figure";
import { linkTo } from "../../shell/address";
import type { Overview, Stack } from "../../source/answers";
import type { Where } from "../../source/source";
import { headPlace } from "../places";
import { entropyByLayer, titleOf } from "./statistics";

interface Props {
  readonly overview: Overview;
  readonly where: Where;
  readonly stack: Stack;
  readonly statistic: string;
}

/** The grid as a table. Its cells are made when it is opened: a large model has thousands. */
export function HeadTable({ overview, where, stack, statistic }: Props) {
  const [isOpen, setOpen] = useState(false);
  const caption = `${stack.name || "Heads"}, ${titleOf(overview, statistic)}`;
  return (
    <details
      class="twin"
      data-part="head-table"
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>{caption} as a table</summary>
      {isOpen && <Cells overview={overview} where={where} stack={stack} statistic={statistic} />}
    </details>
  );
}

function Cells({ overview, where, stack, statistic }: Props) {
  const labels = new Map(
    overview.heads
      .filter((one) => one.stack === stack.name)
      .map((one) => [`${one.layer}/${one.head}`, one.label]),
  );
  const entropy = entropyByLayer(stack.grids.normalized_entropy ?? null);
  const heads = Array.from({ length: stack.heads }, (_, head) => head);
  return (
    <div class="scroll over-table">
      <table>
        <caption class="unseen">
          {overview.statistics[statistic]?.words}, and the entropy of each layer
        </caption>
        <thead>
          <tr>
            <th scope="col">layer</th>
            {heads.map((head) => (
              <th key={head} scope="col">
                H{head}
              </th>
            ))}
            <th scope="col">least entropy</th>
            <th scope="col">median</th>
            <th scope="col">largest</th>
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: stack.layers }, (_, layer) => (
            <tr key={layer}>
              <th scope="row">L{layer}</th>
              {heads.map((head) => {
                const label = labels.get(`${layer}/${head}`);
                const value = stack.grids[statistic]?.[layer]?.[head] ?? Number.NaN;
                return (
                  <td key={head} data-head={label ?? ""}>
                    {label ? (
                      <a class="over-plain" href={linkTo(headPlace(where, label))}>
                        <Figure value={value} />
                      </a>
                    ) : (
                      "not recorded"
                    )}
                  </td>
                );
              })}
              {[entropy[layer]?.low, entropy[layer]?.middle, entropy[layer]?.high].map(
                (value, n) => (
                  <td key={n}>
                    <Figure value={value ?? Number.NaN} />
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
