import { amend } from "../../shell/address";
import { chooseLanguage, language, languages, say } from "../language";
import "./language.css";

// Each in its own words: whoever looks for German looks for "Deutsch".
const NAMES: Readonly<Record<string, string>> = { en: "English", de: "Deutsch", zh: "中文" };

/** The language of the lesson; it stands in the address, so that a link keeps it. */
export function LanguagePicker() {
  return (
    <span class="learn-language">
      <span class="learn-language-code" aria-hidden="true">
        {language.value.toUpperCase()}
      </span>
      <select
        data-part="language-picker"
        aria-label={say("language.label")}
        value={language.value}
        onChange={(event) => {
          chooseLanguage(event.currentTarget.value);
          amend({ language: event.currentTarget.value });
        }}
      >
        {languages.value.map((code) => (
          <option key={code} value={code} lang={code}>
            {NAMES[code] ?? code}
          </option>
        ))}
      </select>
    </span>
  );
}
