import { useEffect } from "preact/hooks";
import { ENGLISH, helpWords } from "../../shell/Help";
import { say } from "../language";

/** The list of keys speaks the lesson's language while the lesson is on the screen. */
export function useHelpWords(): void {
  useEffect(() => {
    helpWords.value = () => ({
      keys: say("shell.keys"),
      close: say("shell.close"),
      page: say("shell.page"),
      doesList: say("shell.this_list"),
      doesTheme: say("shell.does_dark"),
      doesClose: say("shell.does_close"),
      space: say("shell.space"),
    });
    return () => {
      helpWords.value = () => ENGLISH;
      document.documentElement.lang = "en";
    };
  }, []);
}
