import { useCallback, useEffect, useMemo } from "preact/hooks";
import { count } from "../../maths/format";
import { Notice } from "../../parts/Notice";
import { place } from "../../shell/address";
import type { Overview, TrainingFacts } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import type { Answer } from "../answer";
import { counted } from "../overview/facts";
import { markReady } from "../states/ready";
import { Standing } from "../states/Standing";
import { Failed, Waiting } from "../states/Waiting";
import { Alarms } from "./Alarms";
import { type Choice, choiceOf, type Row, rowsOf } from "./choice";
import { HeadDetail } from "./HeadDetail";
import { LossChart } from "./LossChart";
import { LOSS } from "./loss";
import { NoTraining } from "./NoTraining";
import { type AllStrips, useStrips } from "./run";
import { StripChart } from "./StripChart";
import { useTrainingKeys } from "./trainingKeys";
import "./training.css";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
  readonly training: Answer<TrainingFacts>;
}

/** A training run: what every head did, step by step. */
export function TrainingPage({ training, ...props }: Props) {
  if (training.state === "here") {
    if (!training.value.samples) return <NoTraining name={props.overview.name} />;
    return <Full {...props} facts={training.value} />;
  }
  return (
    <main class="page">
      {training.state === "failed" ? (
        <Failed error={training.error} />
      ) : (
        <Waiting words="Looking for a training run" />
      )}
    </main>
  );
}

interface FullProps extends Omit<Props, "training"> {
  readonly facts: TrainingFacts;
}

function Full({ source, where, overview, facts }: FullProps) {
  const strips = useStrips(source, where, facts);
  const rows = useMemo(() => rowsOf(facts), [facts]);
  const [first, last] = facts.steps ?? [0, 0];
  return (
    <main class="page train" data-part="training">
      <div class="train-top">
        <h1>Training</h1>
        <p class="soft" data-part="training-size">
          {counted(facts.samples, "sampled step")}, {count(first)}–{count(last)} ·{" "}
          {counted(facts.places.length, "layer")} · {counted(rows.length, "head")}
        </p>
        {overview.live && <Live facts={facts} />}
        <Standing overview={{ ...overview, live: false, prompts: [] }} />
      </div>
      <aside class="train-side">
        <Alarms where={where} facts={facts} />
        <HowToRead hasLoss={facts.loss !== null} />
      </aside>
      <div class="train-strips">
        {strips.state === "failed" && <Failed error={strips.error} />}
        {strips.state === "waiting" && <Waiting words="Reading every step" />}
        {strips.state === "here" && (
          <AllCharts {...{ source, where, facts, rows }} strips={strips.value} />
        )}
      </div>
    </main>
  );
}

interface ChartsProps extends Omit<FullProps, "overview"> {
  readonly rows: readonly Row[];
  readonly strips: AllStrips;
}

function AllCharts({ source, where, facts, rows, strips }: ChartsProps) {
  const choice = choiceOf(facts, rows);
  const onDrawn = useCallback(() => markReady("training"), []);
  useTrainingKeys(facts, rows, strips, choice);
  useInView(choice);
  const row = choice.row === undefined ? undefined : rows[choice.row];
  const loss = strips.get(LOSS);
  return (
    <>
      {facts.loss && loss && (
        <LossChart {...{ facts, rows, choice }} loss={facts.loss} strips={loss} />
      )}
      {Object.entries(facts.statistics).map(([name, statistic]) => {
        const own = strips.get(name);
        return (
          own && (
            <StripChart
              key={name}
              {...{ facts, statistic, rows, choice, onDrawn }}
              strips={own}
              isActive={name === choice.statistic}
              detail={(layout) =>
                row && <HeadDetail {...{ source, where, facts, strips, choice, row, layout }} />
              }
            />
          )
        );
      })}
    </>
  );
}

/** Whoever comes by a link or a key sees the strip that is meant; whoever sees it is not moved. */
function useInView({ statistic, row, step }: Choice): void {
  useEffect(() => {
    if (row === undefined && place.value.stat === undefined) return; // nothing was chosen
    if (document.activeElement?.closest("[data-part=loss]")) return; // steps are chosen there
    const field = document.querySelector(".train-active .train-field");
    const box = field?.getBoundingClientRect();
    if (!box) return;
    const isSeen = box.bottom > 0 && box.top < innerHeight;
    if (!isSeen) field?.closest("section")?.scrollIntoView({ block: "start" });
  }, [statistic, row, step]);
}

function Live({ facts }: { facts: TrainingFacts }) {
  return (
    <Notice kind="live">
      <div data-part="training-live">
        <strong>Still being written.</strong>{" "}
        <span data-value={facts.samples}>{counted(facts.samples, "sampled step")}</span> so far;
        this page updates every two seconds.
      </div>
    </Notice>
  );
}

function HowToRead({ hasLoss }: { hasLoss: boolean }) {
  return (
    <section class="train-how soft">
      <h2>How to read it</h2>
      <p>
        A row is a head, a column a sampled step. <span class="train-dot train-dot-alarm" /> first
        step over the limit, with an alarm: the head stayed there.{" "}
        <span class="train-dot train-dot-over" /> first step over the limit, without one. Grey: not
        known.
      </p>
      {hasLoss && (
        <p>
          The loss has the same steps across. A red line is an alarm; a red band with a cross, a
          loss that is NaN or infinite.
        </p>
      )}
      <p>
        Click a cell for the head's line and its stored map. <kbd>←</kbd> <kbd>→</kbd> step,{" "}
        <kbd>↑</kbd> <kbd>↓</kbd> head, <kbd>s</kbd> next statistic, <kbd>a</kbd> next alarm,{" "}
        <kbd>Enter</kbd> stored map.
      </p>
    </section>
  );
}
