import { type Signal, useSignal } from "@preact/signals";
import {
  ANSWERS,
  type Answer,
  type Mark,
  mark,
  type Verdict,
  type Written,
} from "../../maths/grading";
import { Figure } from "../../parts/Figure";
import type { Exercise } from "../data";
import { Say, say } from "../language";
import type { LessonState } from "../state";
import {
  blankFor,
  columnNames,
  firstWrong,
  howTo,
  nameOf,
  ROLE,
  resultOf,
  rowsShown,
  taskOf,
  withCell,
} from "./exercise";
import { Choice, Lab } from "./Lab";
import { Numbers } from "./Numbers";
import { sheetOf } from "./sheets";

/** Work one by hand; what is typed is judged cell by cell, here on the page. */
export function Exercises({ state }: { state: LessonState }) {
  const { exercises } = state.lesson;
  const chosen = useSignal(0);
  const exercise = exercises[chosen.value];
  if (!exercise) return null;
  return (
    <Lab part="exercises" title={say("exercise.title")}>
      <p>{say("exercise.text")}</p>
      <Choice
        part="exercise-choice"
        words={say("exercise.choice")}
        options={exercises.map((one, n) => ({ value: n, text: one.tokens.join(" ") }))}
        chosen={chosen.value}
        choose={(value) => {
          chosen.value = value;
        }}
      />
      <Sheet key={exercise.seed} state={state} exercise={exercise} />
    </Lab>
  );
}

function Sheet({ state, exercise }: { state: LessonState; exercise: Exercise }) {
  const { row, written, isChecked } = sheetOf(state, exercise);
  const found = isChecked.value ? mark(taskOf(exercise), written.value) : undefined;
  return (
    <>
      <Given exercise={exercise} />
      <Choice
        part="exercise-row"
        words={say("exercise.work_out")}
        options={[
          ...exercise.tokens.map((name, n) => ({
            value: n,
            text: say("exercise.row_of", { name }),
          })),
          { value: -1, text: say("exercise.all_rows") },
        ]}
        chosen={row.value}
        choose={(value) => {
          row.value = value;
        }}
      />
      <div class="lab-sheet">
        {ANSWERS.map((answer) => (
          <Step
            key={answer}
            answer={answer}
            exercise={exercise}
            row={row.value}
            written={written}
            found={found}
          />
        ))}
      </div>
      <div class="lab-controls">
        <button
          type="button"
          data-part="exercise-check"
          onClick={() => {
            isChecked.value = true;
          }}
        >
          {say("exercise.check")}
        </button>
        <button
          type="button"
          class="quiet"
          onClick={() => {
            written.value = blankFor(exercise);
            isChecked.value = false;
          }}
        >
          {say("exercise.clear")}
        </button>
      </div>
      {found && <Result exercise={exercise} written={written.value} found={found} />}
    </>
  );
}

function Given({ exercise }: { exercise: Exercise }) {
  const task = taskOf(exercise);
  const dims = (count: number) => Array.from({ length: count }, (_, n) => String(n + 1));
  return (
    <div class="lab-given" data-part="exercise-task">
      <Numbers
        title="x"
        values={task.x}
        rows={exercise.tokens}
        columns={dims(task.x[0]?.length ?? 0)}
      />
      <Numbers title="w_q" hue="q" values={task.w_q} columns={dims(task.w_q[0]?.length ?? 0)} />
      <Numbers title="w_k" hue="k" values={task.w_k} columns={dims(task.w_k[0]?.length ?? 0)} />
      <Numbers title="w_v" hue="v" values={task.w_v} columns={dims(task.w_v[0]?.length ?? 0)} />
    </div>
  );
}

interface StepProps {
  readonly answer: Answer;
  readonly exercise: Exercise;
  readonly row: number;
  readonly written: Signal<Written>;
  readonly found: Mark | undefined;
}

function Step({ answer, exercise, row, written, found }: StepProps) {
  const names = columnNames(exercise, answer);
  return (
    <figure class="lab-step" data-part={`exercise-${answer}`}>
      <figcaption>
        <b class={ROLE[answer]}>{nameOf(answer)}</b> <span class="soft">{howTo(answer)}</span>
      </figcaption>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <td />
              {names.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rowsShown(exercise, answer, row < 0 ? "all" : row).map((r) => (
              <tr key={r}>
                <th scope="row">{exercise.tokens[r]}</th>
                {names.map((name, c) => (
                  <td key={name}>
                    <AnswerCell
                      label={say("cell.label", {
                        matrix: nameOf(answer),
                        row: exercise.tokens[r] ?? "",
                        column: name,
                      })}
                      text={written.value[answer][r]?.[c] ?? ""}
                      verdict={found?.steps[answer].cells[r]?.[c]}
                      put={(text) => {
                        written.value = withCell(written.value, answer, r, c, text);
                      }}
                    />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

interface CellProps {
  readonly label: string;
  readonly text: string;
  readonly verdict: Verdict | undefined;
  readonly put: (text: string) => void;
}

const SIGNS: Readonly<Record<Verdict, string>> = {
  right: "✓",
  wrong: "✗",
  unreadable: "?",
  blank: "",
};

function AnswerCell({ label, text, verdict = "blank", put }: CellProps) {
  const isBad = verdict === "wrong" || verdict === "unreadable";
  return (
    <label class={`lab-answer is-${verdict}`}>
      <span class="unseen">{label}</span>
      <input
        type="text"
        inputMode="text"
        autocomplete="off"
        spellcheck={false}
        value={text}
        aria-invalid={isBad}
        data-verdict={verdict}
        onInput={(event) => put(event.currentTarget.value)}
      />
      <span aria-hidden="true">{SIGNS[verdict]}</span>
    </label>
  );
}

function Result(props: { exercise: Exercise; written: Written; found: Mark }) {
  const { exercise, written, found } = props;
  const isShown = useSignal(false);
  const wrong = firstWrong(exercise, written, found);
  if (!wrong) {
    const { verdict, words } = resultOf(found);
    return (
      <p role="status" data-part="exercise-result" data-verdict={verdict}>
        {words}
      </p>
    );
  }
  return (
    <div role="status" data-part="exercise-result" data-verdict="wrong" data-step={wrong.answer}>
      <p>
        <Say
          name="exercise.wrong"
          with={{
            step: nameOf(wrong.answer),
            place: wrong.place,
            given: <span class="mono">{wrong.given}</span>,
          }}
        />
      </p>
      {isShown.value ? (
        <p data-part="exercise-right">
          <Say name="exercise.follows" with={{ number: <Figure value={wrong.right} /> }} />
        </p>
      ) : (
        <button
          type="button"
          onClick={() => {
            isShown.value = true;
          }}
        >
          {say("exercise.show")}
        </button>
      )}
    </div>
  );
}
