import { type Signal, useSignal } from "@preact/signals";
import { type Attended, attendTo } from "../../maths/attend";
import { figure } from "../../maths/format";
import type { Matrix } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { GERMAN, NOTES } from "../examples";
import { Say, say } from "../language";
import { Argument, Formula, K, Name, Q, RootOfWidth, Transposed, V } from "../parts/Formula";
import type { LessonState } from "../state";
import type { Part, Step } from "../steps/step";
import { type Featured, featured, featureNames, wordsIn } from "./features";
import { MEANINGS } from "./german";
import { shadeOf } from "./Meanings";
import "./beyond.css";
import "./story.css";

const SAME = 1e-9;

function CrossFormula() {
  const of = (Letter: typeof Q, name: string) => (
    <msub>
      <Letter />
      <Name>{name}</Name>
    </msub>
  );
  return (
    <Formula>
      <mrow class="weight">
        <Name>softmax</Name>
      </mrow>
      <Argument>
        {of(Q, say("symbol.target"))}
        <Transposed>{of(K, say("symbol.source"))}</Transposed>
        <mo>/</mo>
        <RootOfWidth />
      </Argument>
      {of(V, say("symbol.source"))}
    </Formula>
  );
}

interface CrossProps {
  readonly labels: readonly string[];
  readonly target: Featured;
  readonly source: Featured;
  readonly attended: Attended;
}

function Cross({ state }: { state: LessonState }) {
  const target = useSignal(NOTES);
  const source = useSignal(GERMAN);
  const asks = featured(state.lesson, wordsIn(target.value), MEANINGS);
  const asked = featured(state.lesson, wordsIn(source.value), MEANINGS);
  const unknown = [...new Set([...asks.unknown, ...asked.unknown])];
  const isEmpty = !asks.tokens.length || !asked.tokens.length;
  return (
    <section data-part="cross">
      <p>
        <Say name="cross.lead" />
      </p>
      <div class="story-own">
        <Sentence part="cross-target" words={say("cross.target")} text={target} tone="q" />
        <Sentence part="cross-source" words={say("cross.source")} text={source} tone="k" />
      </div>
      {unknown.length > 0 && (
        <p class="soft" data-part="unknown-words">
          {say("cross.unknown", { words: unknown.join(", "), count: unknown.length })}
        </p>
      )}
      {isEmpty ? (
        <p role="status">{say("cross.empty")}</p>
      ) : (
        <Looked
          labels={featureNames(state.lesson).map(({ label }) => label)}
          target={asks}
          source={asked}
          attended={attendTo(asks.x, asked.x, asked.x, { scaled: true })}
        />
      )}
      <p class="soft">{say("cross.honest")}</p>
    </section>
  );
}

interface SentenceProps {
  readonly part: string;
  readonly words: string;
  readonly text: Signal<string>;
  readonly tone: string;
}

function Sentence({ part, words, text, tone }: SentenceProps) {
  return (
    <label>
      <span class={tone}>{words}</span>
      <input
        type="text"
        data-part={part}
        value={text.value}
        maxLength={200}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
      />
    </label>
  );
}

function Looked({ labels, target, source, attended }: CrossProps) {
  const { scores, scaled, weights, context } = attended;
  const [rows, columns] = [target.tokens.length, source.tokens.length];
  const root = Math.sqrt(labels.length);
  const table = { rows: target.tokens, columns: source.tokens };
  return (
    <>
      <div class="story-tables">
        <Shaded
          part="cross-scores"
          title={say("cross.scores_title", { rows, columns })}
          values={scores}
          places={0}
          {...table}
        />
        <Shaded
          part="cross-scaled"
          title={say("cross.scaled_title", { width: labels.length, root: figure(root, 2) })}
          values={scaled}
          places={2}
          {...table}
        />
        <Shaded
          part="cross-weights"
          title={say("cross.weights_title")}
          values={weights}
          places={2}
          isShaded
          {...table}
        />
      </div>
      <ul class="story-looks" role="status">
        {target.tokens.map((token, r) => (
          <li key={r}>
            <Look token={token} source={source.tokens} weights={weights[r] ?? []} />
          </li>
        ))}
      </ul>
      <h3>{say("cross.output_title")}</h3>
      <p>{say("cross.output_lead")}</p>
      <Shaded
        part="cross-output"
        title=""
        rows={target.tokens}
        columns={labels}
        values={context}
        places={2}
      />
    </>
  );
}

interface LookProps {
  readonly token: string;
  readonly source: readonly string[];
  readonly weights: readonly number[];
}

function Look({ token, source, weights }: LookProps) {
  const [most, least] = [Math.max(...weights), Math.min(...weights)];
  const weight = <Figure value={most} places={2} class="weight" />;
  if (most - least < SAME) return <Say name="cross.even" with={{ target: token, weight }} />;
  const best = source[weights.indexOf(most)] ?? "";
  return <Say name="cross.strongest" with={{ target: token, source: best, weight }} />;
}

interface ShadedProps {
  readonly part: string;
  readonly title: string;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly values: Matrix;
  readonly places: number;
  readonly isShaded?: boolean;
}

/** A rectangular matrix; weights have the colour of their size behind them. */
function Shaded({ part, title, rows, columns, values, places, isShaded }: ShadedProps) {
  return (
    <figure
      class="story-shaded"
      data-part={part}
      data-rows={rows.length}
      data-columns={columns.length}
    >
      {title && <figcaption class={isShaded ? "weight" : ""}>{title}</figcaption>}
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <td />
              {columns.map((name, c) => (
                <th key={c} scope="col" class={title ? "k" : ""}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((name, r) => (
              <tr key={r}>
                <th scope="row" class="q">
                  {name}
                </th>
                {columns.map((column, c) => {
                  const value = values[r]?.[c] ?? 0;
                  return (
                    <td
                      key={c}
                      class={value === 0 ? "soft" : ""}
                      data-value={String(value)}
                      title={`${name} → ${column}: ${figure(value)}`}
                      style={isShaded ? { background: shadeOf(value) } : undefined}
                    >
                      <span class="figure">{figure(value, places)}</span>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

const NoMask: Part = () => (
  <section>
    <h3>{say("cross.mask_title")}</h3>
    <p>{say("cross.mask")}</p>
  </section>
);

const Where: Part = () => (
  <section data-part="cross-where">
    <h3>{say("cross.where_title")}</h3>
    <ul class="story-where">
      {(["where_translation", "where_speech", "where_pictures", "where_chat"] as const).map(
        (name) => (
          <li key={name}>
            <Say name={`cross.${name}`} />
          </li>
        ),
      )}
    </ul>
  </section>
);

export const cross: Step = {
  formula: CrossFormula,
  hasOwnText: true,
  parts: () => [Cross, NoMask, Where],
};
