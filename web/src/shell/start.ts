import type { LessonData } from "../learner/data";
import type { CarriedRecording } from "../source/carried";
import { FileSource } from "../source/file";
import { askServer, ServerSource } from "../source/server";
import type { Source } from "../source/source";
import { amend, type Place, place, startAddress } from "./address";
import { askKernel } from "./kernel";

// Four shells, one bundle. The server's page carries no data and asks for it (`regard play` says that
// a model is behind it), and so does the page in a notebook's widget; a self-contained page and a
// notebook's frame carry theirs in <script type="application/json" id="regard-data">, and large
// numbers in blobs of text that are unpacked when they are asked for.

export type Start =
  | { readonly room: "lesson"; readonly lesson: LessonData }
  | { readonly room: "play"; readonly token: string; readonly source: Source }
  | {
      readonly room: "recording";
      readonly source: Source;
      /** What a reader must know of a file that carries its recording. */
      readonly words: readonly string[];
    };

type Carried =
  | { readonly kind: "lesson"; readonly lesson: LessonData }
  | { readonly kind: "play" }
  | { readonly kind: "kernel"; readonly open: Place }
  | CarriedRecording;

export function start(): Start {
  const token = startAddress();
  const data = document.getElementById("regard-data")?.textContent;
  const server = () => new ServerSource(askServer(token));
  if (!data) return { room: "recording", source: server(), words: [] };
  const carried = JSON.parse(data) as Carried;
  if (carried.kind === "play") return { room: "play", token, source: server() };
  if (carried.kind === "lesson") return { room: "lesson", lesson: carried.lesson };
  if (carried.open && Object.keys(place.value).length === 0) amend(carried.open);
  if (carried.kind === "kernel") {
    return { room: "recording", source: new ServerSource(askKernel(), "kernel"), words: [] };
  }
  return { room: "recording", source: new FileSource(blob), words: carried.carries.words };
}

function blob(number: number): string {
  return document.getElementById(`regard-blob-${number}`)?.textContent ?? "";
}
