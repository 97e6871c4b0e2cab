import type { ComponentChildren } from "preact";
import { say } from "../language";
import { editCount, flip, forgetEdits, type LessonState } from "../state";

type Choice = "withPositions" | "scaled" | "causal";

interface ToggleProps {
  readonly state: LessonState;
  readonly what: Choice;
  readonly children: ComponentChildren;
}

/** Positions, scaling or the mask, on or off. */
export function Toggle({ state, what, children }: ToggleProps) {
  const isOn = state.given.value[what];
  return (
    <button
      type="button"
      role="switch"
      class="learn-toggle"
      aria-checked={isOn}
      data-part={`toggle-${what}`}
      onClick={() => flip(state, what)}
    >
      <i class="learn-switch" aria-hidden="true" />
      {children}
    </button>
  );
}

const BUTTONS = 24; // more tokens than these are chosen from a list

interface PickProps {
  readonly part: string;
  readonly words: string;
  readonly names: readonly string[];
  readonly chosen: number;
  readonly choose: (index: number) => void;
}

/** One of several by name. */
export function Pick({ part, words, names, chosen, choose }: PickProps) {
  if (names.length > BUTTONS) {
    return (
      <label class="learn-pick" data-part={part}>
        <span class="soft">{words}</span>{" "}
        <select
          value={String(chosen)}
          onChange={(event) => choose(Number(event.currentTarget.value))}
        >
          {names.map((name, n) => (
            <option key={n} value={String(n)}>
              {name}
            </option>
          ))}
        </select>
      </label>
    );
  }
  return (
    <fieldset class="learn-pick" data-part={part}>
      <legend class="soft">{words}</legend>
      {names.map((name, n) => (
        <button key={n} type="button" aria-pressed={n === chosen} onClick={() => choose(n)}>
          {name}
        </button>
      ))}
    </fieldset>
  );
}

/** Which row is spelt out, in which head. */
export function Pickers({ state }: { state: LessonState }) {
  const heads = state.lesson.heads.map((_, h) => `${h + 1}`);
  return (
    <>
      <Pick
        part="token-picker"
        words={say("controls.row")}
        names={state.lesson.labels}
        chosen={state.focus.value}
        choose={(token) => {
          state.focus.value = token;
        }}
      />
      {heads.length > 1 && (
        <Pick
          part="head-picker"
          words={say("controls.head")}
          names={heads}
          chosen={state.head.value}
          choose={(head) => {
            state.head.value = head;
          }}
        />
      )}
    </>
  );
}

/** How many numbers were changed, and all of them put back. */
export function Changes({ state }: { state: LessonState }) {
  const count = editCount(state);
  if (!count) return null;
  return (
    <span class="learn-changes" data-part="changes" data-value={String(count)}>
      <i class="learn-dot" aria-hidden="true" /> {say("controls.changed", { count })}
      <button type="button" data-part="reset-all" onClick={() => forgetEdits(state)}>
        {say("controls.reset_all")}
      </button>
    </span>
  );
}
