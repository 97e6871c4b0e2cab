import { useSignal } from "@preact/signals";
import { download, fileStem } from "../export/download";
import { savedPage } from "../export/page";
import { pythonCode } from "../export/python";
import { numbersJson } from "../export/saved";
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
      problem.value = `The page could not be saved: ${(error as Error).message}`;
    }
  };
  return (
    <Lab part="take-away" title="Take it with you">
      <p>
        Everything on this page
        {changed > 0 && `, with ${changed === 1 ? "your 1 change" : `your ${changed} changes`}`}.
        Nothing is sent anywhere.
      </p>
      <ul class="lab-files">
        <li>
          <button type="button" data-part="save-html" onClick={savePage}>
            Page (HTML)
          </button>
          <span class="soft">opens in any browser, as you left it</span>
        </li>
        <li>
          <button
            type="button"
            data-part="save-python"
            onClick={() =>
              download(`${fileStem(state.lesson.tokens)}.py`, "text/x-python", pythonCode(state))
            }
          >
            Code (Python)
          </button>
          <span class="soft">computes every number again; needs numpy alone</span>
        </li>
        <li>
          <button
            type="button"
            data-part="save-json"
            onClick={() => download(`${stem}.json`, "application/json", numbersJson(state))}
          >
            Numbers (JSON)
          </button>
          <span class="soft">every matrix by its name</span>
        </li>
      </ul>
      {problem.value && <p role="alert">{problem.value}</p>}
    </Lab>
  );
}
