import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { count, figure, percent } from "../../maths/format";
import type { WorkedBlock } from "../../maths/lesson";
import type { Vector } from "../../maths/matrix";
import { heldBy, logitsOf, probabilitiesOf } from "../../maths/nextWord";
import { bare } from "../../maths/vocabulary";
import { Figure } from "../../parts/Figure";
import { Notice } from "../../parts/Notice";
import { BEGINNINGS } from "../examples";
import { Choice, Lab } from "../labs/Lab";
import { Say, say } from "../language";
import { MOST_WORDS, problemOf } from "../make";
import { Toggle } from "../parts/controls";
import { Argument, Equals, Formula, Name, Transposed } from "../parts/Formula";
import { Explanation } from "../parts/Products";
import { RowVector } from "../parts/RowVector";
import type { LessonState } from "../state";
import type { Step } from "../steps/step";
import { NextExample } from "./NextExample";
import { type Draws, makeDraws, Sampler } from "./Sampler";
import { type NextVocabulary, nextVocabulary } from "./vocabulary";
import "./beyond.css";
import "./story.css";

const ZERO = 1e-9;

function NextFormula() {
  return (
    <Formula>
      <mi class="weight">p</mi>
      <Equals />
      <mrow class="weight">
        <Name>softmax</Name>
      </mrow>
      <Argument>
        <mi class="output">h</mi>
        <mo>·</mo>
        <Transposed>
          <mi>E</mi>
        </Transposed>
        <mo>/</mo>
        <mi>τ</mi>
      </Argument>
    </Formula>
  );
}

interface BlockProps {
  readonly state: LessonState;
  readonly block: WorkedBlock;
}

function Lesson({ state }: { state: LessonState }) {
  const { block } = state.worked.value;
  if (!block) return <Notice kind="info">{say("next_word.no_block")}</Notice>;
  return <FromBlock state={state} block={block} />;
}

// A lesson on another sentence begins its parts anew; the temperature and the draws go on.
const kept = new WeakMap<LessonState, Draws>();

function drawsOf(state: LessonState): Draws {
  const draws = kept.get(state) ?? makeDraws();
  kept.set(state, draws);
  return draws;
}

interface AppendProps {
  readonly state: LessonState;
  readonly draws: Draws;
  readonly word: string;
}

/** One word more for the whole lesson. */
function Append({ state, draws, word }: AppendProps) {
  const sentence = [...state.lesson.tokens, word].join(" ");
  const problem = problemOf(sentence);
  return (
    <>
      <button
        type="button"
        data-part="append"
        disabled={problem !== null}
        onClick={() => {
          draws.isFresh.value = false;
          state.change({ sentence });
        }}
      >
        {say("next_word.append", { word })}
      </button>
      {typeof problem === "number" && (
        <span class="soft">{say("sentence.too_long", { count: problem, most: MOST_WORDS })}</span>
      )}
    </>
  );
}

function FromBlock({ state, block }: BlockProps) {
  const { words, rows } = nextVocabulary(state);
  const last = state.lesson.tokens.length - 1;
  const hidden = block.output[last] ?? [];
  const isZero = hidden.every((value) => Math.abs(value) < ZERO);
  return (
    <section>
      <h3>{say("next_word.own_title")}</h3>
      <p>
        <Say
          name="next_word.lead"
          with={{ token: state.lesson.labels[last] ?? "", count: words.length }}
        />
      </p>
      <Explanation>
        h = <RowVector values={hidden} tone="output" />
      </Explanation>
      {isZero && <p data-part="zero-hidden">{say("next_word.zero")}</p>}
      <Choice
        part="beginnings"
        words={say("next_word.begin")}
        options={BEGINNINGS.map((text) => ({ value: text, text: `${text} …` }))}
        chosen={BEGINNINGS.find((text) => text === state.lesson.tokens.join(" "))}
        choose={(sentence) => state.change({ sentence, vectors: "features", heads: "by-hand" })}
      />
      <Notice kind="warning">{say("next_word.not_trained")}</Notice>
      {isZero ? <NextExample state={state} /> : <Own {...{ state, words, rows, hidden }} />}
    </section>
  );
}

interface OwnProps extends NextVocabulary {
  readonly state: LessonState;
  readonly hidden: Vector;
}

/** The lesson's own next word, which can be appended. */
function Own({ state, words, rows, hidden }: OwnProps) {
  const draws = drawsOf(state);
  return (
    <>
      <Sampler
        draws={draws}
        part="lesson-sampler"
        words={words}
        logits={logitsOf(hidden, rows)}
        seed={1}
        after={(word) => <Append state={state} draws={draws} word={word} />}
      />
      <p>{say("next_word.append_why")}</p>
    </>
  );
}

function Trained({ state }: { state: LessonState }) {
  const chosen = useSignal(0);
  const draws = useMemo(makeDraws, [chosen.value]);
  const found = state.lesson.next_words;
  const prompt = found?.prompts[chosen.value];
  if (!found || !prompt) return null;
  const held = percent1(heldBy(prompt.logits, prompt.log_sum));
  return (
    <Lab part="trained" title={say("next_word.trained_title")}>
      <p>
        {say("next_word.trained_lead", {
          model: found.model,
          vocabulary: count(found.vocabulary),
        })}
      </p>
      <Choice
        part="prompts"
        words={say("next_word.prompt")}
        options={found.prompts.map(({ text }, n) => ({ value: n, text: `${text} …` }))}
        chosen={chosen.value}
        choose={(value) => {
          chosen.value = value;
        }}
      />
      <p data-part="held" data-value={String(heldBy(prompt.logits, prompt.log_sum))}>
        {say("next_word.trained_kept", { kept: found.kept, held })}
      </p>
      <Sampler
        draws={draws}
        part="trained-sampler"
        words={prompt.words}
        logits={prompt.logits}
        seed={2 + chosen.value}
        after={(word) => (
          <span data-part="continued">
            {prompt.text}
            <b>{word}</b>
          </span>
        )}
      />
      <p>
        <Say name="next_word.trained_live" />
      </p>
    </Lab>
  );
}

/** 93.1 % */
function percent1(share: number): string {
  return share >= 0.1 ? `${figure(100 * share, 1)} %` : percent(share);
}

const MOST_ROWS = 12;

/** Every row has a next word; all but the last stand in the sentence. */
function OnlyTheLast({ state }: { state: LessonState }) {
  const { block } = state.worked.value;
  const { tokens, labels } = state.lesson;
  if (!block) return null;
  const { words, rows } = nextVocabulary(state);
  const given = (n: number) => {
    const shares = probabilitiesOf(logitsOf(block.output[n] ?? [], rows), 1);
    return shares[words.indexOf(bare(tokens[n + 1] ?? ""))] ?? 0;
  };
  const isLast = (n: number) => n === tokens.length - 1;
  const first = Math.max(tokens.length - MOST_ROWS, 0);
  return (
    <section data-part="last-row">
      <h3>{say("next_word.last_row_title")}</h3>
      <p>{say("next_word.last_row", { count: tokens.length })}</p>
      <Toggle state={state} what="causal">
        {say("next_word.causal")}
      </Toggle>
      <div class="scroll">
        <table class="story-guesses">
          <thead>
            <tr>
              <th scope="col">{say("next_word.row_guess")}</th>
              <th scope="col">{say("next_word.row_target")}</th>
              <th scope="col" class="weight">
                {say("next_word.row_probability")}
              </th>
            </tr>
          </thead>
          <tbody>
            {labels.slice(first).map((label, k) => {
              const n = first + k;
              return (
                <tr key={n} class={isLast(n) ? "is-drawn" : ""}>
                  <th scope="row">{label}</th>
                  <td>{isLast(n) ? say("next_word.row_open") : tokens[n + 1]}</td>
                  <td class="weight">{!isLast(n) && <Figure value={given(n)} places={3} />}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {!state.given.value.causal && <p class="soft">{say("next_word.without_causal")}</p>}
    </section>
  );
}

export const nextWord: Step = {
  formula: NextFormula,
  hasOwnRow: true,
  parts: () => [Trained, Lesson, OnlyTheLast],
};
