import type { LessonData } from "../learner/data";
import { ServerSource } from "../source/server";
import type { Source } from "../source/source";
import { startAddress } from "./address";

// Three shells, one bundle. The server's page carries no data and asks for it; a self-contained
// page and a notebook's frame carry theirs in <script type="application/json" id="regard-data">.

export type Start =
  | { readonly room: "lesson"; readonly lesson: LessonData }
  | { readonly room: "recording"; readonly source: Source };

type Carried =
  | { readonly kind: "lesson"; readonly lesson: LessonData }
  | { readonly kind: "recording"; readonly recording: unknown };

export function start(): Start {
  const token = startAddress();
  const data = document.getElementById("regard-data")?.textContent;
  if (!data) return { room: "recording", source: new ServerSource(token) };
  const carried = JSON.parse(data) as Carried;
  if (carried.kind === "lesson") return { room: "lesson", lesson: carried.lesson };
  throw new Error("this page carries nothing that can be shown");
}
