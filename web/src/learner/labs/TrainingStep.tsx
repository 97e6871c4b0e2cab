import { type Signal, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
import type { LessonState } from "../state";
import { Chart } from "./Chart";
import {
  advanced,
  begin,
  type Course,
  drawnProblem,
  labelsOf,
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
    <Lab part="training-step" title={say("lab_training.title")}>
      <p>{problem.causal ? say("lab_training.text_causal") : say("lab_training.text")}</p>
      <Settings state={state} d_k={d_k} rate={rate} withValues={withValues} />
      <div class="lab-controls">
        <button type="button" data-part="train-step" onClick={() => go(1)}>
          {say("lab_training.step")}
        </button>
        <button type="button" data-part="train-ten" onClick={() => go(10)}>
          {say("lab_training.ten")}
        </button>
        <button
          type="button"
          data-part="train-restart"
          onClick={() => {
            race.value = null;
          }}
        >
          {say("lab_training.restart")}
        </button>
        {d_k.value !== OWN && (
          <button
            type="button"
            onClick={() => {
              seed.value += 1;
            }}
          >
            {say("lab_scaling.draw_again")}
          </button>
        )}
        <span class="soft" data-part="train-count" data-value={String(now.raw.losses.length - 1)}>
          {say("lab_training.taken", { count: now.raw.losses.length - 1 })}
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
          { value: OWN, text: say("lab_training.own", { d_k: own }) },
          ...DRAWN.map((value) => ({ value, text: say("lab_training.drawn", { d_k: value }) })),
        ]}
        chosen={d_k.value}
        choose={(value) => {
          d_k.value = value;
        }}
      />
      <Choice
        part="train-rate"
        words={say("lab_training.rate")}
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
        {say("lab_training.with_values")}
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
            <Pair
              words={say("lab_training.loss_before")}
              race={race}
              of={(course) => course.first.loss}
            />
            <Pair
              words={say("lab_training.loss_now")}
              race={race}
              of={(course) => course.last.loss}
            />
            <Pair
              words={say("lab_scaling.gradient_median")}
              race={race}
              of={(course) => rowsAlive(course.last).median}
            />
            <Pair
              words={say("lab_training.largest")}
              race={race}
              of={(course) => rowsAlive(course.last).largest}
            />
            <Pair
              words={say("lab_training.dead", { rows: race.problem.x.length })}
              race={race}
              of={(course) => rowsAlive(course.last).dead}
              places={0}
            />
          </tbody>
        </table>
      </div>
      <BeforeAfter race={race} focus={focus} />
      {steps > 0 && <Losses race={race} />}
      <p class="soft">{say("lab_training.caution")}</p>
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
  const labels = labelsOf(race.problem);
  const sides = [
    { name: say("sides.raw"), key: "raw", course: race.raw },
    { name: "÷ √d_k", key: "scaled", course: race.scaled },
  ] as const;
  return (
    <div class="lab-pair">
      {sides.map(({ name, key, course }) => {
        const rows = [course.first, course.last].map((state) => state.weights[focus] ?? []);
        const keys = heaviest(rows, MOST_KEYS);
        const isAll = keys.length === labels.length;
        return (
          <figure key={key} data-part={`training-weights-${key}`}>
            <figcaption>
              <Say
                name={isAll ? "lab_training.weights_of" : "lab_training.weights_of_some"}
                with={{
                  side: <span class={`lab-${key}`}>{name}</span>,
                  name: labels[focus],
                  most: MOST_KEYS,
                }}
              />
            </figcaption>
            <div class="lab-beside">
              <span class="soft">{say("lab_training.before")}</span>
              <WeightStrip weights={rows[0] ?? []} labels={labels} keys={keys} />
              <span class="soft">{say("lab_training.now")}</span>
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
      <figcaption>{say("lab_training.losses")}</figcaption>
      <Chart
        title={say("lab_training.losses_title")}
        across={say("lab_training.steps")}
        log={false}
        height={190}
        ends={[0, steps]}
        ticks={steps < 3 ? [0, steps] : [0, Math.round(steps / 2), steps]}
        lines={[
          { name: say("sides.raw"), look: "raw", points: points(race.raw) },
          { name: "÷ √d_k", look: "scaled", points: points(race.scaled) },
        ]}
      />
    </figure>
  );
}
