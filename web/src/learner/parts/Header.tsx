import { HelpButton } from "../../shell/Help";
import { switchTheme, theme } from "../../shell/theme";
import { say } from "../language";
import { type LessonState, present } from "../state";
import { LanguagePicker } from "./LanguagePicker";
import { SentenceChoices } from "./SentenceChoices";
import { SentenceForm } from "./SentenceForm";

/** The sentence, and what concerns the whole page. */
export function Header({ state }: { state: LessonState }) {
  return (
    <header class="learn-header" data-part="learner-header">
      <span class="learn-brand">regard</span>
      <SentenceForm state={state} />
      <span class="learn-buttons">
        <LanguagePicker />
        <button
          type="button"
          data-part="present-button"
          title={say("page.present_title")}
          onClick={() => present(state, true)}
        >
          {say("page.present")}
        </button>
        <button
          type="button"
          class="quiet"
          data-part="theme-button"
          title={`${say("shell.dark")} (d)`}
          onClick={switchTheme}
        >
          <span aria-hidden="true">{theme.value === "dark" ? "☀" : "☾"}</span>
          <span class="unseen">{say("shell.dark")}</span>
        </button>
        <HelpButton />
      </span>
      <SentenceChoices state={state} />
    </header>
  );
}
