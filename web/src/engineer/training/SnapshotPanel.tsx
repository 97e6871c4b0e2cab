import { count } from "../../maths/format";
import { Notice } from "../../parts/Notice";
import type { Source, Where } from "../../source/source";
import { useAnswer } from "../answer";
import { Failed, Waiting } from "../states/Waiting";
import { lastUpTo } from "./choice";
import { SnapshotMap } from "./SnapshotMap";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly label: string;
  readonly step: number;
  /** Steps of which a map was stored. */
  readonly stored: readonly number[];
  readonly onStep: (step: number) => void;
}

/** The map that was stored at a step, or last before it. */
export function SnapshotPanel({ source, where, label, step, stored, onStep }: Props) {
  const found = lastUpTo(step, stored);
  return (
    <section
      id="train-snapshot"
      class="train-snapshot"
      tabIndex={-1}
      data-part="snapshot"
      data-head={label}
      data-step={found ?? ""}
      aria-label="Stored map"
    >
      <h3>
        {found === undefined
          ? "No stored map"
          : `Map of ${label} as stored at step ${count(found)}`}
      </h3>
      {found === undefined ? (
        <NotStored label={label} step={step} first={stored[0]} />
      ) : (
        <>
          {found !== step && <p class="soft">The last one stored before step {count(step)}.</p>}
          <Asked {...{ source, where, label }} step={found} />
        </>
      )}
      <Neighbours {...{ found, stored, onStep }} />
    </section>
  );
}

function NotStored({
  label,
  step,
  first,
}: {
  label: string;
  step: number;
  first?: number | undefined;
}) {
  return (
    <Notice kind="info">
      <div data-part="no-snapshot">
        {first === undefined ? (
          <>
            No map of {label} was stored in this run. To store some:{" "}
            <code>
              regard.Monitor(…, snapshots=regard.monitor.Snapshots(("{label}",), every=100))
            </code>
          </>
        ) : (
          <>
            No map of {label} was stored up to step {count(step)}; the first is of step{" "}
            {count(first)}.
          </>
        )}
      </div>
    </Notice>
  );
}

interface AskedProps {
  readonly source: Source;
  readonly where: Where;
  readonly label: string;
  readonly step: number;
}

function Asked({ source, where, label, step }: AskedProps) {
  const answer = useAnswer(
    async (stop) => ({ label, map: await source.snapshot(where, label, step, stop) }),
    [source, where.recording, label, step],
    true,
  );
  if (answer.state === "failed") return <Failed error={answer.error} />;
  if (answer.state === "waiting" || answer.value.label !== label) {
    return <Waiting words="Reading the map" />;
  }
  return <SnapshotMap map={answer.value.map} label={label} />;
}

interface NeighboursProps {
  readonly found: number | undefined;
  readonly stored: readonly number[];
  readonly onStep: (step: number) => void;
}

function Neighbours({ found, stored, onStep }: NeighboursProps) {
  const before = stored.filter((one) => found !== undefined && one < found).at(-1);
  const after = stored.find((one) => found === undefined || one > found);
  if (before === undefined && after === undefined) return null;
  return (
    <p class="train-neighbours">
      {before !== undefined && (
        <button type="button" data-part="snapshot-before" onClick={() => onStep(before)}>
          ‹ step {count(before)}
        </button>
      )}
      {after !== undefined && (
        <button type="button" data-part="snapshot-after" onClick={() => onStep(after)}>
          step {count(after)} ›
        </button>
      )}
    </p>
  );
}
