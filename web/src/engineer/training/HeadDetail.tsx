import { Figure } from "../../parts/Figure";
import type { TrainedStatistic, TrainingFacts } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { statisticName } from "../overview/statistics";
import { binOf, type Choice, cellOf, choose, type Row } from "./choice";
import { HeadLine } from "./HeadLine";
import { StepWords } from "./ReadingLine";
import { readingAt } from "./reading";
import type { AllStrips } from "./run";
import { SnapshotPanel } from "./SnapshotPanel";
import type { StripLayout } from "./stripLayout";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly facts: TrainingFacts;
  readonly strips: AllStrips;
  readonly choice: Choice;
  readonly row: Row;
  readonly layout: StripLayout;
}

/** One head: its line, its numbers at a step, and the map that was stored then. */
export function HeadDetail({ source, where, facts, strips, choice, row, layout }: Props) {
  const own = strips.get(choice.statistic);
  const statistic = facts.statistics[choice.statistic];
  if (!own || !statistic) return null;
  const stored = facts.maps[row.label] ?? [];
  const onStep = (step: number) => choose(choice.statistic, row.label, step);
  return (
    <div class="train-detail" data-part="head-detail" data-head={row.label}>
      <h3 class="train-line-title">
        {statisticName(choice.statistic)} of {row.label}
      </h3>
      <HeadLine strips={own} step={choice.step} {...{ statistic, row, layout, stored, onStep }} />
      <div class="train-beside">
        <SnapshotPanel
          {...{ source, where, stored, onStep }}
          label={row.label}
          step={choice.step}
        />
        <Numbers {...{ facts, strips, choice, row }} />
      </div>
    </div>
  );
}

type NumbersProps = Pick<Props, "facts" | "strips" | "choice" | "row">;

/** Every statistic of the head at the step. */
function Numbers({ facts, strips, choice, row }: NumbersProps) {
  const own = strips.get(choice.statistic);
  if (!own) return null;
  const bin = binOf(choice.step, own);
  const reading = readingAt(own, cellOf(row, own), bin);
  return (
    <section class="train-numbers" data-part="head-numbers">
      <h3>
        {row.label} at <StepWords {...reading} />
      </h3>
      <dl>
        {Object.entries(facts.statistics).map(([name, statistic]) => (
          <div key={name} data-statistic={name} data-chosen={name === choice.statistic}>
            <dt title={statistic.words}>{statisticName(name)}</dt>
            <dd>
              <Known {...{ strips, name, row, bin, statistic }} />
            </dd>
          </div>
        ))}
      </dl>
      {reading.first !== reading.last && <p class="soft">Means of the steps of the bin.</p>}
    </section>
  );
}

interface KnownProps {
  readonly strips: AllStrips;
  readonly name: string;
  readonly row: Row;
  readonly bin: number;
  readonly statistic: TrainedStatistic;
}

function Known({ strips, name, row, bin, statistic }: KnownProps) {
  const own = strips.get(name);
  const value = own ? readingAt(own, cellOf(row, own), bin).mean : Number.NaN;
  const { limit } = statistic;
  const isOver = limit && (limit.side === "above" ? value > limit.value : value < limit.value);
  return <Figure value={value} {...(isOver ? { class: "train-too" } : {})} />;
}
