import { useSignal } from "@preact/signals";
import type { Vector } from "../../maths/matrix";
import { exchanged, exchangeTrial, type OrderTrial } from "../../maths/order";
import { Figure } from "../../parts/Figure";
import { Lab } from "../labs/Lab";
import { RowOf } from "../labs/Numbers";
import { Say, say } from "../language";
import type { LessonState } from "../state";
import { Rotation } from "./Rotation";
import "./story.css";

const SAME = 1e-9;
const MOST_ROWS = 6;

/** Two words exchanged: without positions no output notices. */
export function Order({ state }: { state: LessonState }) {
  const first = useSignal(0);
  const second = useSignal(state.lesson.labels.length - 1);
  const { labels, tokens } = state.lesson;
  const last = labels.length - 1;
  if (last < 1) return null;
  const [a, b] = [Math.min(first.value, last), Math.min(second.value, last)];
  const given = { ...state.given.value, words: state.worked.value.words };
  return (
    <Lab part="order" title={say("order.title")}>
      <p>
        <Say name="order.lead" />
      </p>
      <div class="lab-controls">
        <WordPick part="order-first" words={say("order.first")} labels={labels} chosen={first} />
        <WordPick part="order-second" words={say("order.second")} labels={labels} chosen={second} />
      </div>
      <p class="story-orders">
        <span class="soft">{say("order.was")}</span> <Words tokens={tokens} marked={[a, b]} />
        <br />
        <span class="soft">{say("order.now")}</span>{" "}
        <Words tokens={exchanged(tokens, a, b)} marked={[a, b]} />
      </p>
      <div class="story-trials">
        <Trial state={state} trial={exchangeTrial(given, a, b, false)} name="without" />
        <Trial state={state} trial={exchangeTrial(given, a, b, true)} name="with" />
      </div>
      <p class="soft">
        <Say name="order.mask" />
      </p>
      <Rotation state={state} />
    </Lab>
  );
}

interface PickProps {
  readonly part: string;
  readonly words: string;
  readonly labels: readonly string[];
  readonly chosen: { value: number };
}

function WordPick({ part, words, labels, chosen }: PickProps) {
  return (
    <label>
      <span class="soft">{words}</span>{" "}
      <select
        data-part={part}
        value={String(chosen.value)}
        onChange={(event) => {
          chosen.value = Number(event.currentTarget.value);
        }}
      >
        {labels.map((label, n) => (
          <option key={n} value={String(n)}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

function Words({ tokens, marked }: { tokens: readonly string[]; marked: readonly number[] }) {
  return (
    <>
      {tokens.map((token, n) => (
        <span key={n}>{marked.includes(n) ? <b>{token} </b> : `${token} `}</span>
      ))}
    </>
  );
}

interface TrialProps {
  readonly state: LessonState;
  readonly trial: OrderTrial;
  readonly name: "with" | "without";
}

function Trial({ state, trial, name }: TrialProps) {
  const changed = trial.changes.filter((change) => change > SAME).length;
  const total = trial.changes.length;
  const rows = trial.before.slice(0, MOST_ROWS);
  const row = (values: Vector | undefined) => <RowOf values={(values ?? []).slice(0, 4)} />;
  return (
    <figure data-part={`order-${name}`} data-changed={String(changed)}>
      <figcaption>
        <b>{say(name === "with" ? "order.with" : "order.without")}</b>
      </figcaption>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">{say("order.word")}</th>
              <th scope="col">{say("order.output_before")}</th>
              <th scope="col">{say("order.output_after")}</th>
              <th scope="col">{say("order.change")}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((before, n) => (
              <tr key={n}>
                <th scope="row">{state.lesson.labels[n]}</th>
                <td>{row(before)}</td>
                <td>{row(trial.after[n])}</td>
                <td class={(trial.changes[n] ?? 0) > SAME ? "story-changed" : "soft"}>
                  <Figure value={settled(trial.changes[n] ?? 0)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {total > MOST_ROWS && <p class="soft">{say("order.more", { count: total - MOST_ROWS })}</p>}
      <p>
        {name === "without"
          ? say("order.without_verdict")
          : say("order.with_verdict", { count: changed, total })}
      </p>
    </figure>
  );
}

/** Sums in another order differ by a rounding error: that is no change. */
function settled(change: number): number {
  return change > SAME ? change : 0;
}
