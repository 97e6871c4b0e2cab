import { type Signal, useSignal } from "@preact/signals";
import { percent } from "../../maths/format";
import { D_KS, KEYS, type Reading, ROWS, type Side } from "../../maths/scaling";
import { Figure } from "../../parts/Figure";
import { Twin } from "../../parts/Twin";
import { Say, type Sentence, say } from "../language";
import type { LessonState } from "../state";
import { Chart, type Line } from "./Chart";
import { Choice, Lab } from "./Lab";
import { SidesHead } from "./SidesHead";
import { type Readings, useReadings } from "./useReadings";

const START = 6; // d_k = 64, a usual width of a head

/** Resample q and k at any d_k: what the scores do, and what is left of the gradient. */
export function ScalingLab(_: { state: LessonState }) {
  const place = useSignal(START);
  const seed = useSignal(1);
  const guess = useSignal<string | undefined>(undefined);
  const d_k = D_KS[place.value] as number;
  const readings = useReadings(seed.value, d_k);
  const reading = readings.byWidth.get(d_k);
  return (
    <Lab part="scaling-lab" title={say("lab_scaling.title")}>
      <p>{say("lab_scaling.text", { rows: ROWS, keys: KEYS })}</p>
      <Controls place={place} seed={seed} d_k={d_k} />
      <Guess d_k={d_k} guess={guess} reading={reading} />
      {guess.value && reading && (
        <>
          <Sides reading={reading} isBusy={readings.isBusy} />
          <Curves readings={readings} d_k={d_k} />
          <p class="soft">{say("lab_scaling.caution")}</p>
        </>
      )}
    </Lab>
  );
}

function Controls(props: { place: Signal<number>; seed: Signal<number>; d_k: number }) {
  return (
    <div class="lab-controls">
      <label class="lab-slider">
        <span>
          d_k = <Figure value={props.d_k} places={0} />
        </span>
        <input
          type="range"
          min={0}
          max={D_KS.length - 1}
          step={1}
          value={props.place.value}
          aria-valuetext={`d_k = ${props.d_k}`}
          data-part="d-k-slider"
          onInput={(event) => {
            props.place.value = Number(event.currentTarget.value);
          }}
        />
      </label>
      <button
        type="button"
        data-part="draw-again"
        onClick={() => {
          props.seed.value += 1;
        }}
      >
        {say("lab_scaling.draw_again")}
      </button>
      <span class="soft">{say("lab_scaling.draw", { number: props.seed.value })}</span>
    </div>
  );
}

interface GuessProps {
  readonly d_k: number;
  readonly guess: Signal<string | undefined>;
  readonly reading: Reading | undefined;
}

const GUESSES = [
  { value: "one", text: "1" },
  { value: "root", text: "√d_k" },
  { value: "width", text: "d_k" },
  { value: "square", text: "d_k²" },
] as const;

function Guess({ d_k, guess, reading }: GuessProps) {
  const isRight = guess.value === "width";
  return (
    <div class="lab-guess">
      <Choice
        part="guess"
        words={say("lab_scaling.predict")}
        options={GUESSES}
        chosen={guess.value}
        choose={(value) => {
          guess.value = value;
        }}
      />
      {guess.value && reading && (
        <p role="status" data-part="guess-answer">
          {isRight ? say("lab_scaling.right") : say("lab_scaling.not_right")}{" "}
          <Say
            name="lab_scaling.measured"
            with={{
              raw: <Figure value={reading.raw.variance} places={2} />,
              d_k: <Figure value={d_k} places={0} />,
              scaled: <Figure value={reading.scaled.variance} places={2} />,
            }}
          />
        </p>
      )}
    </div>
  );
}

const FIGURES: readonly { readonly name: keyof Side; readonly words: Sentence }[] = [
  { name: "variance", words: "lab_scaling.variance" },
  { name: "largestWeight", words: "lab_scaling.largest_weight" },
  { name: "entropy", words: "lab_scaling.entropy" },
  { name: "gradientMedian", words: "lab_scaling.gradient_median" },
  { name: "gradientP99", words: "lab_scaling.gradient_rare" },
  { name: "dead", words: "lab_scaling.dead" },
];

function Sides({ reading, isBusy }: { reading: Reading; isBusy: boolean }) {
  const cell = (side: Side, name: keyof Side) =>
    name === "dead" ? (
      <span class="figure" data-value={String(side.dead)}>
        {percent(side.dead)}
      </span>
    ) : (
      <Figure value={side[name]} />
    );
  return (
    <div class="scroll">
      <table class="lab-sides" data-part="scaling-table" aria-busy={isBusy}>
        <SidesHead />
        <tbody>
          {FIGURES.map(({ name, words }) => (
            <tr key={name} data-figure={name}>
              <th scope="row">{say(words)}</th>
              <td>{cell(reading.raw, name)}</td>
              <td>{cell(reading.scaled, name)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Curves({ readings, d_k }: { readings: Readings; d_k: number }) {
  const all = D_KS.flatMap((one) => readings.byWidth.get(one) ?? []);
  const columns = [say("lab_scaling.column_median"), "p99", say("lab_scaling.column_dead")];
  const line = (name: string, look: Line["look"], of: (reading: Reading) => number): Line => ({
    name,
    look,
    points: all.map((reading) => [reading.d_k, of(reading)]),
  });
  return (
    <figure class="lab-figure" data-part="scaling-chart" aria-busy={readings.isBusy}>
      <figcaption>{say("lab_scaling.chart")}</figcaption>
      <Chart
        title={say("lab_scaling.chart_title")}
        across="d_k"
        log
        ends={[1, 1024]}
        ticks={D_KS.filter((_, n) => n % 2 === 0)}
        at={d_k}
        lines={[
          line(say("lab_scaling.rare_raw"), "raw-rare", (one) => one.raw.gradientP99),
          line(say("lab_scaling.median_raw"), "raw", (one) => one.raw.gradientMedian),
          line(say("lab_scaling.rare_scaled"), "scaled-rare", (one) => one.scaled.gradientP99),
          line(say("lab_scaling.median_scaled"), "scaled", (one) => one.scaled.gradientMedian),
        ]}
      />
      <Twin
        caption={say("lab_scaling.table")}
        summary={say("lab_scaling.as_table")}
        columns={["d_k", ...columns, ...columns.map((name) => `${name} ÷√d_k`)]}
        rows={all.map(({ d_k: width, raw, scaled }) => [
          String(width),
          ...[raw, scaled].flatMap((side) => [
            <Figure key="median" value={side.gradientMedian} />,
            <Figure key="p99" value={side.gradientP99} />,
            <Figure key="dead" value={side.dead} places={3} />,
          ]),
        ])}
      />
    </figure>
  );
}
