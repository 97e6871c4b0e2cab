import type { LessonData } from "./data";

export function LearnerRoom({ lesson }: { lesson: LessonData }) {
  return <main>{lesson.tokens.join(" ")}</main>;
}
