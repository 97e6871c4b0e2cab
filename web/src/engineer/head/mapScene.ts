import { type Ink, linearInk, linearTop, logInk, RAW_SCALE, rgbOf } from "./inks";
import type { MapTools } from "./mapTools";
import { type Inks, largestCode, type Scene } from "./paint";
import { styled } from "./styled";
import type { Size, View } from "./view";

/** What is to be painted now; null where there is no map at all. */
export function sceneOf(tools: MapTools, size: Size, ratio: number, view?: View): Scene | null {
  const { state, tiles } = tools;
  const level = state.level.peek();
  if (level === null || size.width === 0) return null;
  const how = state.colouring.peek();
  const base = {
    view: view ?? state.view.peek(),
    size,
    ratio,
    shape: state.shape,
    recorded: state.facts.recorded,
    levels: how === "raw" ? [1] : state.facts.levels[how],
    level,
    how,
    standIn: how === "max" ? state.overview.peek() : null,
    tileOf: (at: Parameters<typeof tiles.get>[0]) => tiles.get(at),
  };
  const scale = how === "raw" ? RAW_SCALE : state.facts.scale;
  const hidden = rgbOf(styled("--hidden"));
  const scene: Scene = { ...base, ink: logInk(scale, hidden) };
  if (!state.linear.peek()) return scene;
  return { ...scene, ink: linearOf(scene, hiddenKeys(tools), hidden, scale) };
}

function linearOf(
  scene: Scene,
  without: readonly number[],
  hidden: ReturnType<typeof rgbOf>,
  scale: Ink["scale"],
): Ink {
  return linearInk(scale, hidden, linearTop(largestCode(scene, without), scale));
}

/** The keys that are covered now. */
export function hiddenKeys(tools: MapTools): readonly number[] {
  return tools.state.withSinks.peek() ? [] : tools.state.sinks;
}

export function mapInks(): Inks {
  return { paper: styled("--paper"), hidden: styled("--hidden"), line: styled("--line") };
}
