import { HelpButton } from "../../shell/Help";
import { switchTheme, theme } from "../../shell/theme";
import { type LessonState, present } from "../state";

/** The sentence, and what concerns the whole page. */
export function Header({ state }: { state: LessonState }) {
  const { tokens } = state.lesson;
  const sentence = tokens.join(" ");
  return (
    <header class="learn-header" data-part="learner-header">
      <span class="learn-brand">regard</span>
      <h1 data-part="sentence" title={sentence.slice(0, 500)}>
        {sentence}
      </h1>
      <span class="learn-buttons">
        <button
          type="button"
          data-part="present-button"
          title="Presenter mode (p)"
          onClick={() => present(state, true)}
        >
          Present
        </button>
        <button
          type="button"
          class="quiet"
          data-part="theme-button"
          title="Dark or light (d)"
          onClick={switchTheme}
        >
          <span aria-hidden="true">{theme.value === "dark" ? "☀" : "☾"}</span>
          <span class="unseen">Dark or light</span>
        </button>
        <HelpButton />
      </span>
    </header>
  );
}
