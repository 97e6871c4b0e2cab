import type { ComponentChildren } from "preact";
import { Notice } from "../../parts/Notice";
import { say, sayPhrase } from "../language";
import type { LessonState } from "../state";

/** What happened without being asked for: a link that could not be followed, changes left behind. */
export function Told({ state }: { state: LessonState }) {
  const left = state.left.value;
  const ignored = state.ignored.value;
  return (
    <>
      {ignored.length > 0 && (
        <Line part="ignored" close={() => (state.ignored.value = [])}>
          {ignored.map((one) => (
            <p key={one.values.word}>{sayPhrase(one)}</p>
          ))}
        </Line>
      )}
      {left && (
        <Line part="left-behind" close={() => (state.left.value = null)}>
          <p>{say("link.left", { count: left.count })}</p>
          <button type="button" data-part="undo-change" onClick={left.undo}>
            {say("link.undo")}
          </button>
        </Line>
      )}
    </>
  );
}

interface LineProps {
  readonly part: string;
  readonly close: () => void;
  readonly children: ComponentChildren;
}

function Line({ part, close, children }: LineProps) {
  return (
    <div class="learn-told" data-part={part}>
      <Notice kind="warning">
        <div class="learn-told-words">{children}</div>
        <button type="button" class="quiet" data-part={`close-${part}`} onClick={close}>
          <span aria-hidden="true">×</span>
          <span class="unseen">{say("shell.close")}</span>
        </button>
      </Notice>
    </div>
  );
}
