import { useEffect, useLayoutEffect, useMemo } from "preact/hooks";
import type { LessonData } from "./data";
import { Changes, Pickers } from "./parts/controls";
import { Header } from "./parts/Header";
import { Presenter } from "./parts/Presenter";
import { followPlace } from "./parts/place";
import { useRoomKeys } from "./parts/roomKeys";
import { MadeUp, Parts, StageHead, stepOf } from "./parts/Stage";
import { StepLinks, StepList } from "./parts/StepList";
import { WhyCard } from "./parts/WhyCard";
import { type LessonState, makeState } from "./state";
import "./room.css";
import "./numbers.css";
import "./tables.css";
import "./pictures.css";

/** The lesson: steps on the left, the stage, and why on the right. */
export function LearnerRoom({ lesson }: { lesson: LessonData }) {
  const state = useMemo(() => makeState(lesson), [lesson]);
  useLayoutEffect(() => followPlace(state), [state]);
  useEffect(() => {
    document.title = `${lesson.tokens.join(" ").slice(0, 60)} · regard`;
  }, [lesson]);
  useRoomKeys(state);
  return state.presenting.value ? <Presenter state={state} /> : <Frame state={state} />;
}

function Frame({ state }: { state: LessonState }) {
  const step = state.step.value;
  useEffect(() => scrollTo(0, 0), [step]);
  return (
    <div class="learn-room" data-part="learner-room">
      <Header state={state} />
      <StepList state={state} />
      <main class="learn-stage" data-part="stage" data-step={step}>
        <StageHead state={state} />
        <div class="learn-controls">
          {!stepOf(state).step.hasOwnText && <Pickers state={state} />}
          <Changes state={state} />
        </div>
        <MadeUp state={state} />
        <Parts state={state} most={Number.POSITIVE_INFINITY} />
        <StepLinks state={state} />
      </main>
      <WhyCard key={step} words={stepOf(state).words} />
    </div>
  );
}
