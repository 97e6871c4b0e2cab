import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { LessonData } from "../learner/data";
import { sentence } from "../maths/format";
import { Notice } from "../parts/Notice";
import { amend, keepToken, linkTo, type Place, place } from "../shell/address";
import { SourceError } from "../source/source";
import { PlayServer } from "./api";
import { askedOf, wordsOf } from "./place";
import { PlayRoom } from "./Room";

interface Props {
  readonly token: string;
  readonly engineer: () => JSX.Element;
  readonly learner: (lesson: LessonData) => JSX.Element;
}

const HOME = "regard-play";

/** `regard play`: its own room, and the other two over what was read there. */
export function Rooms({ token, engineer, learner }: Props) {
  const server = useMemo(() => new PlayServer(token), [token]);
  useToken(server, token);
  const { view = "play" } = place.value;
  if (view === "play") return <PlayRoom server={server} />;
  return (
    <>
      <nav class="play-return" aria-label="Back">
        <a href={linkTo(home())} data-part="return">
          ← back to the prompt
        </a>
      </nav>
      {view === "lesson" ? (
        <Explained server={server} learner={learner} />
      ) : (
        <Reopened server={server} engineer={engineer} />
      )}
    </>
  );
}

/** A server that is started again has another token: the tab that was opened with it tells those
 * that are still here. Only pages of this address hear it. */
function useToken(server: PlayServer, token: string): void {
  useEffect(() => {
    const channel = new BroadcastChannel(HOME);
    channel.onmessage = ({ data }: MessageEvent<unknown>) => {
      if (typeof data !== "string") return;
      server.useToken(data);
      keepToken(data);
    };
    channel.postMessage(token);
    return () => channel.close();
  }, []);
}

/** Where the prompt is: this place where it names one, else the last that was shown. */
function home(): Place {
  const { step, row, key, from, ...at } = place.value;
  if (at.p) return { ...at, view: "play" };
  const made = { ...wordsOf(from), view: "play" };
  try {
    const last = sessionStorage.getItem(HOME);
    return last === null ? made : (JSON.parse(last) as Place);
  } catch {
    return made;
  }
}

interface ReopenedProps {
  readonly server: PlayServer;
  readonly engineer: Props["engineer"];
}

/** The engineer's room. A server that was started again has none of its recordings: the one of
 * this place is made again, and may get another number. */
function Reopened({ server, engineer }: ReopenedProps) {
  const isOpen = useSignal(false);
  const error = useSignal("");
  const { from } = place.value;
  useEffect(() => {
    const control = new AbortController();
    const load = async () => {
      const wanted = askedOf(wordsOf(from));
      if (wanted) {
        const reading = await server.read(wanted, () => undefined, control.signal);
        const rec = String(await server.open(reading.id));
        if (control.signal.aborted) return;
        if (rec !== place.peek().rec) amend({ rec });
      }
      isOpen.value = true;
    };
    load().catch((reason: unknown) => {
      if (control.signal.aborted) return;
      if (!(reason instanceof SourceError)) throw reason;
      error.value = `The recording of this address could not be made again. ${sentence(reason.message)}`;
    });
    return () => control.abort();
  }, [from]);
  if (error.value) return <Notice kind="error">{error.value}</Notice>;
  if (isOpen.value) return engineer();
  return (
    <p class="soft" role="status">
      Opening the recording
    </p>
  );
}

interface ExplainedProps {
  readonly server: PlayServer;
  readonly learner: Props["learner"];
}

/** The lesson, filled with the q, k and scores of the head that was asked about. */
function Explained({ server, learner }: ExplainedProps) {
  const lesson = useSignal<LessonData | null>(null);
  const error = useSignal("");
  const { at = "", pin = "0", key = "0" } = place.value;
  const asked = JSON.stringify(askedOf(place.value));
  useEffect(() => {
    const control = new AbortController();
    const load = async () => {
      const wanted = askedOf(place.peek());
      if (!wanted) return;
      const reading = await server.read(wanted, () => undefined, control.signal);
      lesson.value = await server.lesson<LessonData>(reading.id, at, Number(pin), Number(key));
    };
    load().catch((reason: unknown) => {
      if (control.signal.aborted) return;
      if (!(reason instanceof SourceError)) throw reason;
      error.value = sentence(reason.message);
    });
    return () => control.abort();
  }, [asked, at, pin, key]);
  if (error.value) return <Notice kind="error">{error.value}</Notice>;
  return lesson.value ? learner(lesson.value) : null;
}
