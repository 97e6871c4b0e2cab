import type { Worked } from "../../maths/lesson";
import { twoHeads } from "../labs/splits";
import type { LessonState } from "../state";
import type { Part } from "../steps/step";
import { Film } from "./Film";
import { SCENES, type Scene } from "./timeline";

// Clips of the film, one for each step that it belongs to, and the whole of it.

function clip(scene: Scene, joinsOf?: (state: LessonState) => Worked | null): Part {
  const scenes = [scene];
  return function Clip({ state }: { state: LessonState }) {
    const title = `motion.clip_${scene}` as const;
    return <Film {...{ state, scenes, title }} {...(joinsOf && { joinsOf })} />;
  };
}

export const MeetClip = clip("meet");
export const ScaleClip = clip("scale");
export const SqueezeClip = clip("squeeze");
export const FlowClip = clip("flow");

/** One head alone has nothing beside it: then it is the lab's two. */
export const HeadsClip = clip("heads", twoHeads);

/** All scenes one after another. */
export function WholeFilm({ state }: { state: LessonState }) {
  return <Film state={state} scenes={SCENES} title="motion.whole" />;
}
