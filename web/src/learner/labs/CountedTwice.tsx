import { useSignal } from "@preact/signals";
import { multiply, type Vector } from "../../maths/matrix";
import { softmax } from "../../maths/softmax";
import { Figure } from "../../parts/Figure";
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

const SLIPS: readonly { readonly value: Slip; readonly text: string }[] = [
  { value: "value", text: "the value of sat doubled" },
  { value: "the", text: "the term of The added twice" },
  { value: "scaling", text: "÷ √d_k forgotten" },
  { value: "weight", text: "the weight of sat doubled" },
  { value: "cat", text: "the term of cat added twice" },
  { value: "addition", text: "the term of sat added twice" },
];

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
    <Lab part="counted-twice" title="The note prints 1.2669: what was counted twice?">
      <p>
        The first note gives <RowOf values={PRINTED} /> for “The”. Weights sum to 1 and no value is
        above 1, so no number can be. Which slip gives these?
      </p>
      <Choice
        part="slips"
        words="Try one"
        options={SLIPS}
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
        <dt>this slip gives</dt>
        <dd>
          <RowOf values={found} />
        </dd>
        <dt>the note prints</dt>
        <dd>
          <RowOf values={PRINTED} />
        </dd>
        <dt>each term once</dt>
        <dd class="v">
          <RowOf values={slipped(undefined)} />
        </dd>
      </dl>
      {fits ? <Explained /> : <p>It does not fit. Compare column by column and try another.</p>}
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
        It fits:{" "}
        {sums.map(({ words, sum }, n) => (
          <span key={n} class="mono">
            {words.map((word, w) =>
              typeof word === "number" ? <Figure key={w} value={word} /> : word,
            )}
            {" = "}
            <Figure value={sum} />
          </span>
        ))}
        <span class="soft">({cat} is 0.15536 cut off)</span>
      </p>
      <p>
        A doubled value, a doubled weight and a double addition of sat look the same in the result.
        The note's figures are missing, so which of the three it was cannot be told.
      </p>
    </>
  );
}
