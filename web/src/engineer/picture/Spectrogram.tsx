import { useLayoutEffect, useRef } from "preact/hooks";
import type { AxisPart, Heard } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { arrived, useAnswer } from "../answer";
import type { Scene } from "./choice";

/** A recorded sound, with its spectrogram once that is decoded. */
export interface Sound extends Heard {
  readonly bitmap: ImageBitmap | null;
}

/** Asked where some positions are moments; null elsewhere, and until it comes. */
export function useHeard(source: Source, where: Where, scene: Scene): Heard | null {
  const isSound = [...scene.queries, ...scene.keys].some((part) => part.moments);
  const ask = (stop: AbortSignal) =>
    isSound ? source.ask("heard", where, stop) : Promise.resolve(null);
  return arrived(useAnswer(ask, [source, where.recording, where.prompt, isSound])) ?? null;
}

/** "0.42–0.80 s" where a word begins at that token; else empty. */
export function timeAt(sound: Sound | null, position: number): string {
  const word = sound?.words.find((one) => one.position === position);
  return word ? `${word.start.toFixed(2)}–${word.end.toFixed(2)} s` : "";
}

/** From where to where the sound lies on the moments of a part, as fractions of them all. */
export function spanOf(part: AxisPart, { start, seconds }: Heard): readonly [number, number] {
  const { seconds: step, first } = part.moments ?? { seconds: 1, first: 0 };
  const whole = part.count * step;
  const share = (at: number) => Math.min(Math.max((at - first) / whole, 0), 1);
  return [share(start), share(start + (seconds ?? whole))];
}

const HEIGHT = 80;

interface Props {
  readonly part: AxisPart;
  readonly sound: Sound;
  readonly width: number;
}

/** The sound over the same seconds as the curve below it, low tones below. */
export function Spectrogram({ part, sound, width }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [from, to] = spanOf(part, sound);
  const [left, wide] = [from * width, Math.max((to - from) * width, 1)];
  const { bitmap } = sound;
  useLayoutEffect(() => {
    const at = canvas.current;
    if (!at || !bitmap) return;
    at.width = Math.round(wide * devicePixelRatio);
    at.height = Math.round(HEIGHT * devicePixelRatio);
    at.getContext("2d")?.drawImage(bitmap, 0, 0, at.width, at.height);
  }, [bitmap, wide]);
  if (!bitmap) return null;
  const seconds = sound.seconds === null ? "" : ` of ${sound.seconds.toFixed(2)} seconds`;
  return (
    <canvas
      ref={canvas}
      class="pic-spectrogram"
      role="img"
      aria-label={`Spectrogram${seconds} of sound`}
      data-part="spectrogram"
      style={{ marginLeft: `${left}px`, width: `${wide}px`, height: `${HEIGHT}px` }}
    />
  );
}
