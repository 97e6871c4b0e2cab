import { count } from "../../maths/format";
import { Notice } from "../../parts/Notice";
import type { Overview } from "../../source/answers";

// What must be known of a recording before it is read: still growing, damaged, incomplete, or without
// some of the model's attention.

const MOST = 3;

export function Standing({ overview }: { overview: Overview }) {
  return (
    <>
      {overview.live && overview.heads.length > 0 && <Live overview={overview} />}
      {overview.damage.length > 0 && <Damaged overview={overview} />}
      {!overview.live && overview.prompts[overview.prompt]?.finished === false && <Unfinished />}
      <Problems lines={overview.problems} />
    </>
  );
}

/** How much of the rows is here: "rows 0–511 of 1,937". */
export function progressOf(overview: Overview): { readonly here: number; readonly all: number } {
  let here = Number.POSITIVE_INFINITY;
  let all = 0;
  for (const head of overview.heads) {
    here = Math.min(here, head.recorded[1]);
    all = Math.max(all, head.shape[0]);
  }
  return { here: Number.isFinite(here) ? here : 0, all };
}

function Live({ overview }: { overview: Overview }) {
  const { here, all } = progressOf(overview);
  return (
    <Notice kind="live">
      <div data-part="live">
        <strong>Still being written.</strong> {count(here)} of {count(all)} rows of every head are
        here, {count(overview.heads.length)} heads so far; this page updates every two seconds.{" "}
        <progress value={here} max={Math.max(all, 1)} aria-label="Rows that are here" />
      </div>
    </Notice>
  );
}

function Damaged({ overview }: { overview: Overview }) {
  const { damage, name } = overview;
  return (
    <Notice kind="warning">
      <div data-part="damaged">
        <strong>The file is damaged; what can be read is shown.</strong>
        <ul class="state-list">
          {damage.slice(0, MOST).map((one) => (
            <li key={one.offset}>
              at byte <span data-value={one.offset}>{count(one.offset)}</span>: {one.reason}
            </li>
          ))}
          {damage.length > MOST && <li>and {count(damage.length - MOST)} more places</li>}
        </ul>
        <code>regard verify {name}</code> lists everything; with <code>--repair</code> it cuts off
        an incomplete end and rewrites the index.
      </div>
    </Notice>
  );
}

function Unfinished() {
  return (
    <Notice kind="warning">
      <div data-part="unfinished">
        <strong>This prompt was not finished.</strong> The recording ended early: sums over its rows
        may be missing.
      </div>
    </Notice>
  );
}

/** Modules that computed attention during the recording, of which it holds nothing. */
export function notRecorded(made: Overview["made"]): string[] {
  return Array.isArray(made.not_recorded) ? made.not_recorded.map(String) : [];
}

/** Findings and comparisons say the same among their doubts. */
export function Unheard({ overview }: { overview: Overview }) {
  const modules = notRecorded(overview.made);
  if (!modules.length) return null;
  return (
    <Notice kind="warning">
      <div data-part="unheard">
        <strong>Some of the model’s attention is not recorded.</strong> These modules computed
        attention in a way that regard cannot observe; what is shown leaves them out.
        <ul class="state-list">
          {modules.slice(0, MOST).map((line) => (
            <li key={line}>{line}</li>
          ))}
          {modules.length > MOST && <li>and {count(modules.length - MOST)} more</li>}
        </ul>
      </div>
    </Notice>
  );
}

function Problems({ lines }: { lines: readonly string[] }) {
  if (!lines.length) return null;
  return (
    <Notice kind="warning">
      <div data-part="problems">
        <strong>Some of it cannot be read.</strong>
        <ul class="state-list">
          {lines.slice(0, MOST).map((line) => (
            <li key={line}>{line}</li>
          ))}
          {lines.length > MOST && <li>and {count(lines.length - MOST)} more</li>}
        </ul>
      </div>
    </Notice>
  );
}
