import { render } from "preact";
import { EngineerRoom } from "./engineer/Room";
import { LearnerRoom } from "./learner/Room";
import { Rooms } from "./play/Rooms";
import { Carried } from "./shell/Carried";
import { Help } from "./shell/Help";
import { type Start, start } from "./shell/start";
import { startTheme } from "./shell/theme";
import "./style/base.css";

function Room({ at }: { at: Start }) {
  if (at.room === "lesson") return <LearnerRoom lesson={at.lesson} />;
  if (at.room === "play") {
    return (
      <Rooms
        token={at.token}
        engineer={() => <EngineerRoom source={at.source} />}
        learner={(lesson) => <LearnerRoom lesson={lesson} />}
      />
    );
  }
  return (
    <>
      <Carried words={at.words} />
      <EngineerRoom source={at.source} />
    </>
  );
}

function Page({ at }: { at: Start }) {
  return (
    <>
      <Room at={at} />
      <Help />
    </>
  );
}

startTheme();
const root = document.getElementById("page");
if (root) render(<Page at={start()} />, root);
