import { useEffect, useState } from "preact/hooks";
import { amend } from "../../shell/address";
import { useKeys } from "../../shell/keys";
import type { PictureFacts } from "../../source/answers";

const PACE = 700; // milliseconds a frame

interface Props {
  readonly frames: number;
  readonly frame: number;
  readonly pictures: readonly PictureFacts[];
  readonly first: number;
}

/** The frames of a film, by hand or one after another. Nothing moves by itself. */
export function Film({ frames, frame, pictures, first }: Props) {
  const [isPlaying, setPlaying] = useState(false);
  const show = (n: number) => amend({ frame: String(((n % frames) + frames) % frames) });
  useEffect(() => {
    if (!isPlaying) return;
    const timer = setTimeout(() => show(frame + 1), PACE);
    return () => clearTimeout(timer);
  }, [isPlaying, frame]);
  const play = () => setPlaying((old) => !old);
  useKeys("Film", [
    { key: ",", does: "frame before", run: () => show(frame - 1) },
    { key: ".", does: "next frame", run: () => show(frame + 1) },
    { key: " ", does: "play, pause", run: play },
  ]);
  const seconds = first < 0 ? null : pictures[first + frame]?.seconds;
  const when = typeof seconds === "number" ? `, ${seconds.toFixed(2)} s` : "";
  return (
    <div class="pic-film" data-part="film">
      <button type="button" aria-pressed={isPlaying} onClick={play}>
        {isPlaying ? "Pause" : "Play"}
      </button>
      <input
        type="range"
        aria-label="Frame"
        min={0}
        max={frames - 1}
        value={frame}
        onInput={(event) => show(Number(event.currentTarget.value))}
      />
      <span class="mono" aria-live="off">
        frame {frame} of 0–{frames - 1}
        {when}
      </span>
    </div>
  );
}
