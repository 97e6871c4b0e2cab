import { computed, type Signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { sentence } from "../maths/format";
import { Notice } from "../parts/Notice";
import { amend, place } from "../shell/address";
import { SourceError } from "../source/source";
import type { About, PlayServer, Progress } from "./api";
import { Bench } from "./Bench";
import { Header } from "./Header";
import { PromptBox } from "./PromptBox";
import { askedOf, chosen, submit } from "./place";
import { Start } from "./Start";
import { useScript } from "./script";
import { Readings } from "./store";
import { Tour, tourStep } from "./Tour";
import { Words } from "./Words";
import "./play.css";
import "./words.css";
import "./next.css";
import "./heads.css";

const KEPT = "regard-play";
// as text, which is the same text while only the head that is looked at changes
const asked = computed(() => JSON.stringify(askedOf(place.value)));
const askedBeside = computed(() => {
  const { b, off = "" } = place.value;
  return JSON.stringify(b ? askedOf({ p: b, off }) : null);
});
const NONE: ReadonlySet<number> = new Set();

/** A model that answers, and whose attention can be changed. */
export function PlayRoom({ server }: { server: PlayServer }) {
  const about = useSignal<About | null>(null);
  const error = useSignal<SourceError | null>(null);
  useEffect(() => {
    server.about().then(
      (value) => {
        about.value = value;
      },
      (reason: unknown) => {
        if (!(reason instanceof SourceError)) throw reason;
        error.value = reason;
      },
    );
  }, []);
  if (error.value) {
    return (
      <main class="play-room">
        <Notice kind="error">{sentence(error.value.message)}</Notice>
      </main>
    );
  }
  return about.value ? <Frame about={about.value} server={server} /> : null;
}

function Frame({ about, server }: { about: About; server: PlayServer }) {
  const readings = useMemo(() => new Readings(server), [server]);
  const second = useMemo(() => new Readings(server), [server]);
  useRemembered();
  useSignalEffect(() => {
    void readings.ask(JSON.parse(asked.value));
  });
  useSignalEffect(() => {
    void second.ask(JSON.parse(askedBeside.value));
  });
  useScript(about.script, readings);
  useEffect(() => {
    document.title = [place.value.p?.slice(0, 60), "regard play"].filter(Boolean).join(" · ");
  }, [place.value.p]);
  const shown = readings.shown.value;
  const failed = readings.error.value ?? second.error.value;
  // a long prompt that is new: its words are here before the model is through. Signals are handed
  // on as they are, lest every layer that is done draw the whole room again
  const isComing = useComputed(() => {
    const texts = readings.progress.value?.texts;
    return texts !== undefined && texts.join() !== readings.shown.value?.reading.texts.join();
  });
  const sound = async (file: File) => {
    try {
      submit({ sound: await server.sound(file) });
    } catch (reason) {
      if (!(reason instanceof SourceError)) throw reason;
      readings.error.value = reason;
    }
  };
  return (
    <div class="play-room" data-part="play-room" data-busy={readings.busy}>
      <Header
        {...{ about, readings }}
        at={chosen.value}
        onTour={() => {
          tourStep.value = 0;
        }}
      />
      <PromptBox about={about} progress={readings.progress} onSound={sound} />
      {failed && (
        <div data-part="failed">
          <Notice kind="error">{sentence(failed.message.replace(/\.$/, ""))}</Notice>
        </div>
      )}
      <Tour readings={readings} />
      <main class="play-main">
        {isComing.value ? (
          <Coming progress={readings.progress} />
        ) : shown ? (
          <Bench {...{ about, readings, second }} />
        ) : (
          !failed && <Beginning {...{ about, readings }} />
        )}
      </main>
    </div>
  );
}

function Beginning({ about, readings }: { about: About; readings: Readings }) {
  return readings.busy.value ? null : <Start about={about} />;
}

/** The words of a long prompt while the model reads them: what the last one attends to in the layer
 * that was done last, as a mean over its heads. */
function Coming({ progress }: { progress: Signal<Progress | null> }) {
  const { texts = [], heavy = [] } = progress.value ?? {};
  const keys = useMemo(() => heavy.map(([key, weight]) => ({ key, weight })), [heavy]);
  return (
    <div class="play-coming" data-part="coming" aria-busy="true">
      <Words
        name="Words of the prompt"
        texts={texts}
        row={texts.length - 1}
        pinned={null}
        heavy={keys}
        cut={NONE}
        fresh={0}
        onHover={() => undefined}
        onPin={() => undefined}
        onKey={() => undefined}
      />
    </div>
  );
}

/** A tab that is opened again without a prompt shows the last one it had. */
function useRemembered(): void {
  useMemo(() => {
    try {
      const kept = sessionStorage.getItem(KEPT);
      if (kept && !place.peek().p && !place.peek().sound) {
        amend(JSON.parse(kept) as Record<string, string>);
      }
    } catch {
      // storage is closed to this frame
    }
  }, []);
  useSignalEffect(() => {
    try {
      if (place.value.p) sessionStorage.setItem(KEPT, JSON.stringify(place.value));
    } catch {
      // storage is closed to this frame
    }
  });
}
