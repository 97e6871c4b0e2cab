import { render } from "preact";
import { EngineerRoom } from "./engineer/Room";
import { LearnerRoom } from "./learner/Room";
import { Carried } from "./shell/Carried";
import { Help } from "./shell/Help";
import { type Start, start } from "./shell/start";
import { startTheme } from "./shell/theme";
import "./style/base.css";

function Page({ at }: { at: Start }) {
  return (
    <>
      {at.room === "lesson" ? (
        <LearnerRoom lesson={at.lesson} />
      ) : (
        <>
          <Carried words={at.words} />
          <EngineerRoom source={at.source} />
        </>
      )}
      <Help />
    </>
  );
}

startTheme();
const root = document.getElementById("page");
if (root) render(<Page at={start()} />, root);
