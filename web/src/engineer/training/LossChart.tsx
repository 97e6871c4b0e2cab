import { useMemo, useRef, useState } from "preact/hooks";
import { count } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import { Twin } from "../../parts/Twin";
import { useWidth } from "../../parts/useWidth";
import type { Loss, LossAt, TrainingFacts } from "../../source/answers";
import type { Strips } from "../../source/training";
import { counted } from "../overview/facts";
import { binOf, type Choice, chooseStep, type Row } from "./choice";
import { LossLine } from "./LossLine";
import { type LossReading, lossAt, lossSeries } from "./loss";
import { StepWords } from "./ReadingLine";
import { layoutOf } from "./stripLayout";

interface Props {
  readonly facts: TrainingFacts;
  readonly loss: Loss;
  readonly rows: readonly Row[];
  readonly strips: Strips;
  readonly choice: Choice;
}

/** The loss, over the steps of the strips below. */
export function LossChart({ facts, loss, rows, strips, choice }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const room = useWidth(box);
  const bins = strips.first.length;
  const layout = useMemo(
    () => layoutOf(room, rows, facts.places, bins),
    [room, rows, facts.places, bins],
  );
  const series = useMemo(() => lossSeries(strips), [strips]);
  const [pointed, setPointed] = useState<number | null>(null);
  const now = choice.hasStep ? binOf(choice.step, strips) : null;
  const read = pointed ?? now;
  const reading = lossAt(strips, read ?? bins - 1);
  const go = (bin: number) => {
    const next = Math.min(Math.max(bin, 0), bins - 1);
    chooseStep(strips.first[next] ?? 0);
  };
  const keys: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => go((now ?? bins) - 1),
    ArrowRight: () => go((now ?? -1) + 1),
    Home: () => go(0),
    End: () => go(bins - 1),
  };
  return (
    <section class="train-strip train-loss" data-part="loss" aria-label="loss">
      <header class="train-header">
        <h2>Loss</h2>
        <p class="soft train-words">
          <Ends loss={loss} />
        </p>
        <p class="train-reading" data-part="loss-reading">
          {read === null ? (
            <span class="soft">Point at a step to read it.</span>
          ) : (
            <ReadingWords reading={reading} />
          )}
        </p>
      </header>
      <div class="train-room" ref={box}>
        <div
          class="train-loss-field"
          data-part="loss-field"
          role="slider"
          tabIndex={0}
          aria-label="step of the loss"
          aria-valuemin={strips.first[0] ?? 0}
          aria-valuemax={strips.first.at(-1) ?? 0}
          aria-valuenow={reading.first}
          aria-valuetext={spoken(reading)}
          onKeyDown={(event) => {
            const does =
              event.altKey || event.ctrlKey || event.metaKey ? undefined : keys[event.key];
            if (!does) return;
            event.preventDefault();
            does();
          }}
        >
          <LossLine {...{ facts, strips, series, layout, pointed, now, go }} onPoint={setPointed} />
        </div>
      </div>
      <div class="train-key">
        <LossTable loss={loss} />
      </div>
    </section>
  );
}

/** 4.16 at step 0, 2.31 at step 29 */
function Ends({ loss }: { loss: Loss }) {
  return (
    <>
      <At at={loss.first} />, <At at={loss.last} />
      {loss.first_not_finite !== null && (
        <span class="train-too" data-part="loss-broken" data-value={loss.not_finite}>
          {"; "}NaN or infinite in {counted(loss.not_finite, "sampled step")}, the first of them{" "}
          <span data-value={loss.first_not_finite}>{count(loss.first_not_finite)}</span>
        </span>
      )}
    </>
  );
}

function At({ at }: { at: LossAt }) {
  return (
    <>
      {at.value === null ? "NaN or infinite" : <Figure value={at.value} />} at step {count(at.step)}
    </>
  );
}

function ReadingWords({ reading }: { reading: LossReading }) {
  const isBin = reading.first !== reading.last;
  const isKnown = !Number.isNaN(reading.mean);
  return (
    <>
      <StepWords {...reading} />:{" "}
      {isKnown && (
        <>
          {isBin ? "mean loss " : "loss "}
          <Figure value={reading.mean} />
        </>
      )}
      {isKnown && isBin && (
        <>
          , from <Figure value={reading.least} /> to <Figure value={reading.largest} />
        </>
      )}
      {reading.isBroken && (
        <strong class="train-too">
          {isKnown ? "; NaN or infinite in others of these steps" : "the loss is NaN or infinite"}
        </strong>
      )}
      {!isKnown && !reading.isBroken && "no loss was given"}
    </>
  );
}

/** For who listens. */
function spoken(reading: LossReading): string {
  if (reading.isBroken) return `step ${reading.first}: NaN or infinite`;
  if (Number.isNaN(reading.mean)) return `step ${reading.first}: no loss`;
  return `step ${reading.first}: ${reading.mean.toPrecision(4)}`;
}

function LossTable({ loss }: { loss: Loss }) {
  const named: readonly (readonly [string, LossAt | null])[] = [
    ["first", loss.first],
    ["newest", loss.last],
    ["least", loss.least],
    ["largest", loss.largest],
  ];
  const lines = named.flatMap(([name, at]) =>
    at
      ? [
          [
            name,
            count(at.step),
            at.value === null ? "NaN or infinite" : <Figure key={0} value={at.value} />,
          ],
        ]
      : [],
  );
  return <Twin caption="loss" columns={["", "step", "loss"]} rows={lines} />;
}
