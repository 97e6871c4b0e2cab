import { useSignalEffect } from "@preact/signals";
import { HIDDEN } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { isBroken } from "../../source/binary";
import type { Where } from "../../source/source";
import { KeyToken } from "../KeyToken";
import type { MapTools } from "./mapTools";
import { shortened, spelledIfKnown } from "./spelling";
import type { Cell } from "./view";

const AROUND = 2;

function around(n: number, total: number): number[] {
  const wide = Math.min(2 * AROUND + 1, total);
  const first = Math.min(Math.max(n - AROUND, 0), total - wide);
  return Array.from({ length: wide }, (_, k) => first + k);
}

/** Exact weights around the cell, as a table: what the map shows there, in numbers. */
export function ExactPanel({ tools, where }: { tools: MapTools; where: Where }) {
  const { state, cells } = tools;
  const middle = middleOf(tools);
  useSignalEffect(() => {
    const at = middleOf(tools);
    for (const row of around(at.row, state.shape.queries)) {
      for (const key of around(at.key, state.shape.keys)) cells.ask({ row, key });
    }
  });
  return (
    <section class="head-exact card" data-part="exact-panel">
      <h2>
        Exact weights around row {middle.row}, key {middle.key}
      </h2>
      <div class="scroll">
        <ExactTable {...{ tools, where, middle }} />
      </div>
    </section>
  );
}

function middleOf({ state }: MapTools): Cell {
  return state.cursor.value ?? state.pointer.value ?? { row: 0, key: 0 };
}

function word(text: string | null | undefined): string {
  return shortened(spelledIfKnown(text), 8);
}

interface TableProps {
  readonly tools: MapTools;
  readonly where: Where;
  readonly middle: Cell;
}

function ExactTable({ tools, where, middle }: TableProps) {
  const { state, cells, keyTokens, queryTokens } = tools;
  [cells.news.value, keyTokens.news.value, queryTokens.news.value];
  const keys = around(middle.key, state.shape.keys);
  return (
    <table>
      <thead>
        <tr>
          <td class="soft">row \\ key</td>
          {keys.map((key) => (
            <th key={key} scope="col">
              {key}
              <br />
              <KeyToken {...{ where }} head={state.facts} at={key}>
                <span class="k">{word(keyTokens.text(key))}</span>
              </KeyToken>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {around(middle.row, state.shape.queries).map((row) => (
          <tr key={row}>
            <th scope="row">
              {row} <span class="q">{word(queryTokens.text(row))}</span>
            </th>
            {keys.map((key) => (
              <td
                key={key}
                aria-current={row === middle.row && key === middle.key ? "true" : undefined}
              >
                <Weight weight={cells.get({ row, key })?.weight} />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Weight({ weight }: { weight: number | undefined }) {
  if (weight === undefined) return <span class="soft">…</span>;
  if (Number.isNaN(weight)) return <span class="soft">{HIDDEN}</span>;
  if (isBroken(weight)) return <span class="soft">NaN</span>;
  return <Figure value={weight} />;
}
