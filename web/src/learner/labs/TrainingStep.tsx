import { type Signal, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Figure } from "../../parts/Figure";
import type { LessonState } from "../state";
import { Chart } from "./Chart";
import {
  advanced,
  begin,
  type Course,
  drawnProblem,
  lessonProblem,
  type Race,
  rowsAlive,
} from "./course";
import { Choice, Lab } from "./Lab";
import { SidesHead } from "./SidesHead";
import { heaviest, WeightStrip } from "./WeightStrip";

const OWN = 0; // stands for the lesson's own numbers among the d_k to choose from
const DRAWN = [16, 64, 256, 1024];
const RATES = [0.1, 0.3, 1];

/** One gradient step, or a few, with and without the division: same numbers, same rate. */
export function TrainingStep({ state }: { state: LessonState }) {
  const d_k = useSignal(OWN);
  const rate = useSignal(0.3);
  const seed = useSignal(1);
  const withValues = useSignal(false);
  const race = useSignal<Race | null>(null);
  const own = state.worked.value;
  const head = state.worksOn.value;
  const problem = useMemo(
    () => (d_k.value === OWN ? lessonProblem(state) : drawnProblem(d_k.value, seed.value)),
    [state, own, head, d_k.value, seed.value],
  );
  const now = race.value?.problem === problem ? race.value : begin(problem);
  const focus = d_k.value === OWN ? state.focus.value : 0;
  const go = (steps: number) => {
    race.value = advanced(now, steps, rate.value, withValues.value);
  };
  return (
    <Lab part="training-step" title="Let it learn: with and without ÷ √d_k">
      <p>
        Each token shall fetch the value of {problem.causal ? "the one before it" : "the next one"}.
        The loss is half the squared distance from it. Both sides start from the same numbers; w_q
        and w_k learn.
      </p>
      <Settings state={state} d_k={d_k} rate={rate} withValues={withValues} />
      <div class="lab-controls">
        <button type="button" data-part="train-step" onClick={() => go(1)}>
          Take a step
        </button>
        <button type="button" data-part="train-ten" onClick={() => go(10)}>
          Ten steps
        </button>
        <button
          type="button"
          data-part="train-restart"
          onClick={() => {
            race.value = null;
          }}
        >
          Start again
        </button>
        {d_k.value !== OWN && (
          <button
            type="button"
            onClick={() => {
              seed.value += 1;
            }}
          >
            Draw again
          </button>
        )}
        <span class="soft" data-part="train-count" data-value={String(now.raw.losses.length - 1)}>
          {now.raw.losses.length === 2 ? "1 step" : `${now.raw.losses.length - 1} steps`} taken
        </span>
      </div>
      <Result race={now} focus={focus} />
    </Lab>
  );
}

interface SettingsProps {
  readonly state: LessonState;
  readonly d_k: Signal<number>;
  readonly rate: Signal<number>;
  readonly withValues: Signal<boolean>;
}

function Settings({ state, d_k, rate, withValues }: SettingsProps) {
  const own = state.worksOn.value.w_k[0]?.length ?? 1;
  return (
    <div class="lab-controls">
      <Choice
        part="train-d-k"
        words="d_k"
        options={[
          { value: OWN, text: `${own}, this lesson` },
          ...DRAWN.map((value) => ({ value, text: `${value}, drawn` })),
        ]}
        chosen={d_k.value}
        choose={(value) => {
          d_k.value = value;
        }}
      />
      <Choice
        part="train-rate"
        words="Learning rate"
        options={RATES.map((value) => ({ value, text: String(value) }))}
        chosen={rate.value}
        choose={(value) => {
          rate.value = value;
        }}
      />
      <label class="lab-check">
        <input
          type="checkbox"
          checked={withValues.value}
          onChange={(event) => {
            withValues.value = event.currentTarget.checked;
          }}
        />
        w_v learns too
      </label>
    </div>
  );
}

function Result({ race, focus }: { race: Race; focus: number }) {
  const steps = race.raw.losses.length - 1;
  return (
    <>
      <div class="scroll">
        <table class="lab-sides" data-part="training-table">
          <SidesHead />
          <tbody>
            <Pair words="loss before" race={race} of={(course) => course.first.loss} />
            <Pair words="loss now" race={race} of={(course) => course.last.loss} />
            <Pair
              words="‖∂L/∂q‖, median row"
              race={race}
              of={(course) => rowsAlive(course.last).median}
            />
            <Pair
              words="‖∂L/∂q‖, largest row"
              race={race}
              of={(course) => rowsAlive(course.last).largest}
            />
            <Pair
              words={`dead rows of ${race.problem.x.length}`}
              race={race}
              of={(course) => rowsAlive(course.last).dead}
              places={0}
            />
          </tbody>
        </table>
      </div>
      <BeforeAfter race={race} focus={focus} />
      {steps > 0 && <Losses race={race} />}
      <p class="soft">
        At a small d_k both learn. Raise it: unscaled, most rows stand still and a few leap, so the
        loss stalls or jumps.
      </p>
    </>
  );
}

interface PairProps {
  readonly words: string;
  readonly race: Race;
  readonly of: (course: Course) => number;
  readonly places?: number;
}

function Pair({ words, race, of, places = 4 }: PairProps) {
  return (
    <tr>
      <th scope="row">{words}</th>
      <td>
        <Figure value={of(race.raw)} places={places} />
      </td>
      <td>
        <Figure value={of(race.scaled)} places={places} />
      </td>
    </tr>
  );
}

const MOST_KEYS = 24; // bars that can be told apart

function BeforeAfter({ race, focus }: { race: Race; focus: number }) {
  const { labels } = race.problem;
  const sides = [
    { name: "unscaled", key: "raw", course: race.raw },
    { name: "÷ √d_k", key: "scaled", course: race.scaled },
  ] as const;
  return (
    <div class="lab-pair">
      {sides.map(({ name, key, course }) => {
        const rows = [course.first, course.last].map((state) => state.weights[focus] ?? []);
        const keys = heaviest(rows, MOST_KEYS);
        const some = keys.length < labels.length ? `, the ${MOST_KEYS} heaviest` : "";
        return (
          <figure key={key} data-part={`training-weights-${key}`}>
            <figcaption>
              <span class={`lab-${key}`}>{name}</span>: weights of {labels[focus]}
              {some}
            </figcaption>
            <div class="lab-beside">
              <span class="soft">before</span>
              <WeightStrip weights={rows[0] ?? []} labels={labels} keys={keys} />
              <span class="soft">now</span>
              <WeightStrip weights={rows[1] ?? []} labels={labels} keys={keys} />
            </div>
          </figure>
        );
      })}
    </div>
  );
}

function Losses({ race }: { race: Race }) {
  const steps = race.raw.losses.length - 1;
  const points = (course: Course) => course.losses.map((loss, n) => [n, loss] as const);
  return (
    <figure class="lab-figure">
      <figcaption>Loss, step by step</figcaption>
      <Chart
        title="Loss over the steps, with and without the division"
        across="steps"
        log={false}
        height={190}
        ends={[0, steps]}
        ticks={steps < 3 ? [0, steps] : [0, Math.round(steps / 2), steps]}
        lines={[
          { name: "unscaled", look: "raw", points: points(race.raw) },
          { name: "÷ √d_k", look: "scaled", points: points(race.scaled) },
        ]}
      />
    </figure>
  );
}
