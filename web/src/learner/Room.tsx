import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { place } from "../shell/address";
import type { LessonData } from "./data";
import { say, startLanguage } from "./language";
import { AllSteps } from "./parts/AllSteps";
import { Changes, Pickers } from "./parts/controls";
import { Header } from "./parts/Header";
import { useHelpWords } from "./parts/helpWords";
import { Presenter } from "./parts/Presenter";
import { followPlace } from "./parts/place";
import { useRoomKeys } from "./parts/roomKeys";
import { MadeUp, Parts, StageHead, stepOf } from "./parts/Stage";
import { StepLinks, StepList } from "./parts/StepList";
import { Told } from "./parts/Told";
import { WhyCard } from "./parts/WhyCard";
import { type LessonState, makeState } from "./state";
import "./room.css";
import "./numbers.css";
import "./tables.css";
import "./pictures.css";
import "./paper.css";

/** The lesson: steps on the left, the stage, and why on the right. */
export function LearnerRoom({ lesson }: { lesson: LessonData }) {
  const { state, stop } = useMemo(() => {
    const asked = place.peek().language ?? lesson.options.language;
    startLanguage(lesson.languages, typeof asked === "string" ? asked : undefined);
    const made = makeState(lesson);
    return { state: made, stop: followPlace(made) }; // before the first step is drawn
  }, [lesson]);
  useLayoutEffect(() => stop, [stop]);
  const { tokens } = state.lesson;
  useEffect(() => {
    document.title = `${tokens.join(" ").slice(0, 60)} · regard`;
  }, [tokens]);
  useHelpWords();
  useRoomKeys(state);
  if (place.value.print === "all") return <AllSteps key={lessonKey(state)} state={state} />;
  return state.presenting.value ? <Presenter state={state} /> : <Frame state={state} />;
}

function hasPickers(state: LessonState): boolean {
  const { hasOwnText, hasOwnRow } = stepOf(state).step;
  return !hasOwnText && !hasOwnRow;
}

/** Parts of another lesson begin anew: cells, focus and scroll bars belong to its numbers. */
function lessonKey({ asked }: LessonState): string {
  return JSON.stringify(asked.value);
}

const TITLE = ".learn-stage h2";

function focusTitle(): void {
  document.querySelector<HTMLElement>(TITLE)?.focus({ preventScroll: true });
}

/** Another step is read from its beginning: the page is at its top, the focus on its title. */
function useBeginning(step: number): void {
  const was = useRef(step);
  useEffect(() => {
    scrollTo(0, 0);
    if (was.current !== step) focusTitle();
    was.current = step;
  }, [step]);
}

/** The first stop of the keyboard. A link would take the place out of the address. */
function SkipToStage() {
  const skip = () => {
    document.querySelector(TITLE)?.scrollIntoView({ block: "center" });
    focusTitle();
  };
  return (
    <button type="button" class="learn-skip" data-part="skip" onClick={skip}>
      {say("page.skip")}
    </button>
  );
}

function Frame({ state }: { state: LessonState }) {
  const step = state.step.value;
  useBeginning(step);
  return (
    <div class="learn-room" data-part="learner-room">
      <SkipToStage />
      <Header state={state} />
      <StepList state={state} />
      <main class="learn-stage" data-part="stage" data-step={step}>
        <Told state={state} />
        <StageHead state={state} />
        <div class="learn-controls">
          {hasPickers(state) && <Pickers state={state} />}
          <Changes state={state} />
        </div>
        <MadeUp state={state} />
        <Parts key={lessonKey(state)} state={state} most={Number.POSITIVE_INFINITY} />
        <StepLinks state={state} />
      </main>
      <WhyCard key={step} words={stepOf(state).words} />
    </div>
  );
}
