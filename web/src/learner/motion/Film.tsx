import { useMemo, useRef } from "preact/hooks";
import type { Worked } from "../../maths/lesson";
import { useWidth } from "../../parts/useWidth";
import { useKeys } from "../../shell/keys";
import { Say, type Sentence, say } from "../language";
import type { LessonState } from "../state";
import { captionOf } from "./captions";
import { frameAt, lastFrame } from "./frames";
import { type FilmNumbers, filmNumbers } from "./numbers";
import { Stage, stageHeight } from "./Stage";
import { type Moment, type Scene, stillOf, timelineOf } from "./timeline";
import { type Player, SPEEDS, usePlayer, usePrinting } from "./usePlayer";
import "./motion.css";

interface Props {
  readonly state: LessonState;
  readonly scenes: readonly Scene[];
  readonly title: Sentence;
  /** Heads to put side by side where the lesson has only one. */
  readonly joinsOf?: (state: LessonState) => Worked | null;
}

/** Attention in motion, for the chosen row and head: a stage, its sentence, and the controls. */
export function Film({ state, scenes, title, joinsOf }: Props) {
  const { worked, given, focus, head, lesson } = state;
  const numbers = useMemo(
    () => filmNumbers(state, joinsOf?.(state)),
    [state, worked.value, given.value, focus.value, head.value],
  );
  const moments = useMemo(() => timelineOf(numbers, scenes), [numbers, scenes]);
  const frame = useRef<HTMLDivElement>(null);
  const player = usePlayer(moments, frame);
  const width = useUnits(frame);
  useFilmKeys(player, frame);
  const isPrinting = usePrinting();
  const now = frameAt(numbers, moments, player.time);
  const caption = captionOf(numbers, now.moment);
  const words = { query: numbers.label, number: numbers.chosenHead + 1 };
  return (
    <section class="motion" data-part="motion">
      <h3>{say(title)}</h3>
      <p class="motion-lead-in">
        <Say name={leadOf(numbers, lesson.heads.length)} with={words} />
      </p>
      <div ref={frame} class="motion-frame">
        {isPrinting ? (
          <Stills numbers={numbers} moments={moments} scenes={scenes} />
        ) : (
          <Stage
            numbers={numbers}
            frame={now}
            width={width}
            height={stageHeight(numbers, scenes, width)}
            words={say("motion.stage", { scene: sceneName(now.scene), caption })}
          />
        )}
      </div>
      <p
        class="motion-caption"
        data-part="motion-caption"
        aria-live={player.isPlaying ? "off" : "polite"}
      >
        {caption}
      </p>
      <Controls player={player} moments={moments} caption={caption} />
      {scenes.length > 1 && <Scenes {...{ player, moments, scenes }} now={now.scene} />}
    </section>
  );
}

function leadOf({ heads }: FilmNumbers, count: number): Sentence {
  if (heads.length > count) return "motion.lead_split";
  return count > 1 ? "motion.lead_head" : "motion.lead";
}

function sceneName(scene: Scene): string {
  return say(`motion.scene_${scene}`);
}

const PIXELS = 16; // of the root's type, to which the stage is drawn

/** How wide the stage is in units of the root's type. */
function useUnits(frame: { readonly current: HTMLDivElement | null }): number {
  const pixels = useWidth(frame, 640);
  const root = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || PIXELS;
  return Math.max(Math.round((pixels * PIXELS) / root), 280);
}

function useFilmKeys(player: Player, frame: { readonly current: HTMLElement | null }): void {
  const inSight = (run: () => void) => () => {
    frame.current?.scrollIntoView({ block: "nearest" });
    run();
  };
  useKeys(say("motion.title"), [
    { key: "v", does: say("motion.key_play"), run: inSight(player.toggle) },
    { key: ",", does: say("motion.key_back"), run: inSight(() => player.step(-1)) },
    { key: ".", does: say("motion.key_forward"), run: inSight(() => player.step(1)) },
  ]);
}

interface ControlsProps {
  readonly player: Player;
  readonly moments: readonly Moment[];
  readonly caption: string;
}

function Controls({ player, moments, caption }: ControlsProps) {
  const { isPlaying, isAtEnd, time } = player;
  const does = isPlaying ? "motion.pause" : isAtEnd ? "motion.again" : "motion.play";
  return (
    <div class="motion-controls">
      <button type="button" class="motion-play" data-part="motion-play" onClick={player.toggle}>
        <span aria-hidden="true">{isPlaying ? "❚❚" : "▶"}</span> {say(does)}
      </button>
      <StepButton player={player} direction={-1} />
      <StepButton player={player} direction={1} />
      <input
        type="range"
        class="motion-scrubber"
        data-part="motion-scrubber"
        min={0}
        max={stillOf(moments, moments.length - 1)}
        step={1}
        value={Math.round(time)}
        aria-label={say("motion.scrubber")}
        aria-valuetext={caption}
        onInput={(event) => player.seek(Number(event.currentTarget.value))}
        onKeyDown={(event) => stepByKey(event, player)}
      />
      <label class="motion-speed">
        {say("motion.speed")}{" "}
        <select
          data-part="motion-speed"
          value={String(player.speed)}
          onChange={(event) => player.setSpeed(Number(event.currentTarget.value))}
        >
          {SPEEDS.map((speed) => (
            <option key={speed} value={String(speed)}>
              {`${speed}×`}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

const DIRECTIONS: Readonly<Record<string, 1 | -1>> = {
  ArrowRight: 1,
  ArrowUp: 1,
  ArrowLeft: -1,
  ArrowDown: -1,
};

/** Arrows lead from moment to moment: a millisecond would say nothing. */
function stepByKey(event: KeyboardEvent, player: Player): void {
  const direction = DIRECTIONS[event.key];
  if (!direction) return;
  event.preventDefault();
  player.step(direction);
}

function StepButton({ player, direction }: { player: Player; direction: 1 | -1 }) {
  const name = say(direction === 1 ? "motion.forward" : "motion.back");
  return (
    <button
      type="button"
      data-part={direction === 1 ? "motion-forward" : "motion-back"}
      aria-label={name}
      title={name}
      onClick={() => player.step(direction)}
    >
      <span aria-hidden="true">{direction === 1 ? "❯" : "❮"}</span>
    </button>
  );
}

interface ScenesProps {
  readonly player: Player;
  readonly moments: readonly Moment[];
  readonly scenes: readonly Scene[];
  readonly now: Scene;
}

function Scenes({ player, moments, scenes, now }: ScenesProps) {
  const startOf = (scene: Scene) => moments.find((one) => one.scene === scene)?.start ?? 0;
  return (
    <nav class="motion-scenes" aria-label={say("motion.scenes")}>
      {scenes.map((scene, n) => (
        <button
          key={scene}
          type="button"
          data-part={`motion-scene-${scene}`}
          aria-current={scene === now ? "step" : undefined}
          onClick={() => player.seek(startOf(scene))}
        >
          {n + 1}. {sceneName(scene)}
        </button>
      ))}
    </nav>
  );
}

const PRINTED = { one: 600, several: 400 }; // units across

interface StillsProps {
  readonly numbers: FilmNumbers;
  readonly moments: readonly Moment[];
  readonly scenes: readonly Scene[];
}

/** On paper: how each scene ends, side by side. */
function Stills({ numbers, moments, scenes }: StillsProps) {
  const width = scenes.length > 1 ? PRINTED.several : PRINTED.one;
  return (
    <div class={scenes.length > 1 ? "motion-stills is-several" : "motion-stills"}>
      {scenes.map((scene) => {
        const frame = lastFrame(numbers, moments, scene);
        const caption = captionOf(numbers, frame.moment);
        return (
          <figure key={scene} data-part="motion-still">
            <figcaption>
              <b>{sceneName(scene)}.</b> {caption}
            </figcaption>
            <Stage
              numbers={numbers}
              frame={frame}
              width={width}
              height={stageHeight(numbers, [scene], width)}
              words={say("motion.stage", { scene: sceneName(scene), caption })}
            />
          </figure>
        );
      })}
    </div>
  );
}
