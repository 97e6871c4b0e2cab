import { useSignal } from "@preact/signals";
import { multiply, type Vector } from "../../maths/matrix";
import { softmax } from "../../maths/softmax";
import { Figure } from "../../parts/Figure";
import { Say, say } from "../language";
import type { LessonState } from "../state";
import { Choice, Lab } from "./Lab";
import { RowOf } from "./Numbers";

// The notes' own numbers, whatever is edited on the page.
const VALUES = [
  [1, 0, 1, 0],
  [0, 1, 0, 1],
  [1, 1, 1, 1],
] as const;
const SCORES: Vector = [2, 0, 2];
const SCALED: Vector = SCORES.map((score) => score / 2);
const PRINTED: Vector = [1.2669, 0.9999, 1.2669, 0.9999];

type Slip = "value" | "weight" | "addition" | "the" | "cat" | "scaling";

const SLIPS: readonly Slip[] = ["value", "the", "scaling", "weight", "cat", "addition"];

/** What a slip makes of the row of "The": terms counted more than once, or other weights. */
export function slipped(slip: Slip | undefined): number[] {
  const weights = softmax(slip === "scaling" ? SCORES : SCALED);
  const twice = slip === "the" ? 0 : slip === "cat" ? 1 : slip && slip !== "scaling" ? 2 : -1;
  const counted = weights.map((weight, j) => (j === twice ? 2 * weight : weight));
  return multiply([counted], VALUES)[0] as number[];
}

/** Whether these numbers, cut after four places, are the note's; the note cuts its weights too. */
export function fitsNote(output: Vector): boolean {
  return output.every((value, c) => Math.abs(value - (PRINTED[c] as number)) <= 1.5e-4);
}

/** "The note prints 1.2669": which slip explains it? */
export function CountedTwice(_: { state: LessonState }) {
  const slip = useSignal<Slip | undefined>(undefined);
  return (
    <Lab part="counted-twice" title={say("lab_twice.title")}>
      <p>
        <Say name="lab_twice.text" with={{ printed: <RowOf values={PRINTED} /> }} />
      </p>
      <Choice
        part="slips"
        words={say("lab_twice.try")}
        options={SLIPS.map((value) => ({ value, text: say(`lab_twice.${value}`) }))}
        chosen={slip.value}
        choose={(value) => {
          slip.value = value;
        }}
      />
      {slip.value && <Outcome slip={slip.value} />}
    </Lab>
  );
}

function Outcome({ slip }: { slip: Slip }) {
  const found = slipped(slip);
  const fits = fitsNote(found);
  return (
    <div class="lab-outcome" role="status" data-part="slip-outcome" data-fits={String(fits)}>
      <dl class="lab-compare">
        <dt>{say("lab_twice.gives")}</dt>
        <dd>
          <RowOf values={found} />
        </dd>
        <dt>{say("lab_twice.prints")}</dt>
        <dd>
          <RowOf values={PRINTED} />
        </dd>
        <dt>{say("lab_twice.once")}</dt>
        <dd class="v">
          <RowOf values={slipped(undefined)} />
        </dd>
      </dl>
      {fits ? <Explained /> : <p>{say("lab_twice.not_this")}</p>}
    </div>
  );
}

/** The note's sums, from weights that it cut after four places. */
function Explained() {
  const [the = 0, cat = 0] = softmax(SCALED).map((weight) => Math.floor(weight * 1e4) / 1e4);
  const sums = [
    { words: ["3 · ", the], sum: 3 * the },
    { words: [cat, " + 2 · ", the], sum: cat + 2 * the },
  ];
  return (
    <>
      <p class="lab-sums">
        <Say
          name="lab_twice.fits"
          with={{
            weight: cat,
            sums: sums.map(({ words, sum }, n) => (
              <span key={n} class="mono">
                {words.map((word, w) =>
                  typeof word === "number" ? <Figure key={w} value={word} /> : word,
                )}
                {" = "}
                <Figure value={sum} />
              </span>
            )),
          }}
        />
      </p>
      <p>{say("lab_twice.unknown")}</p>
    </>
  );
}
