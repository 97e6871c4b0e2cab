import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { count } from "../maths/format";
import { place } from "../shell/address";
import type { About, Progress } from "./api";
import { submit } from "./place";

interface Props {
  readonly about: About;
  readonly progress: Signal<Progress | null>;
  readonly onSound: (file: File) => void;
}

/** Where a prompt is typed: a text, two sentences, or a sound file. */
export function PromptBox({ about, progress, onSound }: Props) {
  if (about.kind === "sound") return <SoundForm progress={progress} onSound={onSound} />;
  return <TextForm isPair={about.kind === "pair"} progress={progress} />;
}

function TextForm({ isPair, progress }: { isPair: boolean; progress: Signal<Progress | null> }) {
  const { p = "", q = "", b = "" } = place.value;
  const first = useSignal(p);
  const second = useSignal(isPair ? q : b);
  useEffect(() => {
    first.value = p;
  }, [p]);
  useEffect(() => {
    second.value = isPair ? q : b;
  }, [q, b]);
  const hasSecond = isPair || place.value.compare !== undefined || b !== "";
  const send = () => {
    const more: Record<string, string> = isPair ? { q: second.value } : { b: second.value };
    if (first.value.trim()) submit({ p: first.value, ...(hasSecond ? more : {}) });
  };
  return (
    <form
      class="play-prompt"
      data-part="prompt-form"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Box
        name={isPair ? "First sentence" : "Prompt"}
        part="prompt"
        text={first.value}
        onText={(text) => {
          first.value = text;
        }}
        onSend={send}
        isFirst
      />
      {hasSecond && (
        <Box
          name={isPair ? "Second sentence" : "Second prompt, to compare"}
          part="second-prompt"
          text={second.value}
          onText={(text) => {
            second.value = text;
          }}
          onSend={send}
        />
      )}
      <button type="submit" class="play-send" data-part="send">
        Read
      </button>
      <Layers progress={progress} />
    </form>
  );
}

interface BoxProps {
  readonly name: string;
  readonly part: string;
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly onSend: () => void;
  readonly isFirst?: boolean;
}

function Box({ name, part, text, onText, onSend, isFirst = false }: BoxProps) {
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const own = box.current;
    if (!own) return;
    own.style.height = "auto";
    own.style.height = `${own.scrollHeight + 2}px`;
  }, [text]);
  useEffect(() => {
    if (isFirst && !text) box.current?.focus();
  }, []);
  return (
    <label class="play-box">
      <span class="unseen">{name}</span>
      <textarea
        ref={box}
        rows={1}
        value={text}
        placeholder={`${name}: type, then Enter`}
        data-part={part}
        spellcheck={false}
        onInput={(event) => onText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          onSend();
        }}
      />
    </label>
  );
}

function SoundForm({ progress, onSound }: Omit<Props, "about">) {
  return (
    <form class="play-prompt" data-part="prompt-form">
      <label class="play-box play-file">
        <span>A sound file (WAV, FLAC, Ogg or MP3, up to 30 seconds)</span>
        <input
          type="file"
          accept="audio/*"
          data-part="sound-file"
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            if (file) onSound(file);
          }}
        />
      </label>
      <Layers progress={progress} />
    </form>
  );
}

/** How far the model is, layer by layer. */
function Layers({ progress }: { progress: Signal<Progress | null> }) {
  if (!progress.value) return null;
  const { done, of, texts } = progress.value;
  return (
    <>
      {texts && (
        <p
          class="play-layer soft"
          data-part="layer-words"
        >{`${count(texts.length)} tokens: layer ${Math.min(done, of)} of ${of}`}</p>
      )}
      <progress
        class="play-progress"
        max={of}
        value={done}
        aria-label={`Layer ${Math.min(done, of)} of ${of}`}
        data-part="progress"
      />
    </>
  );
}
