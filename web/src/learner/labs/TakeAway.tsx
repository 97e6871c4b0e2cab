import { useSignal } from "@preact/signals";
import { download, fileStem } from "../export/download";
import { savedPage } from "../export/page";
import { pythonCode } from "../export/python";
import { numbersJson } from "../export/saved";
import { say } from "../language";
import { printAll } from "../parts/AllSteps";
import type { LessonState } from "../state";
import { Lab } from "./Lab";

/** The lesson as a file: to open again, to run, to compute with. */
export function TakeAway({ state }: { state: LessonState }) {
  const problem = useSignal("");
  const stem = fileStem(state.lesson.tokens);
  const changed = [...state.edits.value.values()].reduce((sum, cells) => sum + cells.size, 0);
  const savePage = async () => {
    try {
      download(`${stem}.html`, "text/html", await savedPage(state));
      problem.value = "";
    } catch (error) {
      problem.value = (error as Error).message || String(error);
    }
  };
  return (
    <Lab part="take-away" title={say("take_away.title")}>
      <p>
        {changed > 0 ? say("take_away.text_changed", { count: changed }) : say("take_away.text")}
      </p>
      <ul class="lab-files">
        <li>
          <button type="button" data-part="save-html" onClick={savePage}>
            {say("take_away.page")}
          </button>
          <span class="soft">{say("take_away.page_words")}</span>
        </li>
        <li>
          <button
            type="button"
            data-part="save-python"
            onClick={() =>
              download(`${fileStem(state.lesson.tokens)}.py`, "text/x-python", pythonCode(state))
            }
          >
            {say("take_away.code")}
          </button>
          <span class="soft">{say("take_away.code_words")}</span>
        </li>
        <li>
          <button
            type="button"
            data-part="save-json"
            onClick={() => download(`${stem}.json`, "application/json", numbersJson(state))}
          >
            {say("take_away.numbers")}
          </button>
          <span class="soft">{say("take_away.numbers_words")}</span>
        </li>
        <li>
          <button type="button" data-part="print-all" onClick={printAll}>
            {say("print.button")}
          </button>
          <span class="soft">{say("print.words")}</span>
        </li>
      </ul>
      {problem.value && <p role="alert">{say("take_away.failed", { reason: problem.value })}</p>}
    </Lab>
  );
}
