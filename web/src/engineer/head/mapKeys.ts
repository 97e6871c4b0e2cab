import type { Signal } from "@preact/signals";
import type { Binding } from "../../shell/keys";
import type { MapState } from "./mapState";
import { panned } from "./view";

// The map's keys. Arrows pan; with Shift they move the cell that is read out.

const PART = 0.2; // of the screen, by one arrow
const ZOOM = 1.5;

export interface Opened {
  readonly goTo: Signal<boolean>;
  readonly exact: Signal<boolean>;
}

export function mapKeys(state: MapState, opened: Opened, openRow: () => void): Binding[] {
  return [
    ...arrows(state),
    { key: "+", does: "nearer", run: () => state.zoom(ZOOM) },
    { key: "=", does: "nearer", run: () => state.zoom(ZOOM) },
    { key: "-", does: "farther", run: () => state.zoom(1 / ZOOM) },
    { key: "0", does: "all of the matrix", run: () => state.showWhole() },
    { key: "m", does: "mean or largest of a pixel's cells", run: () => switchHow(state) },
    { key: "l", does: "log or linear colours", run: () => flip(state.linear) },
    { key: "s", does: "hide or show the sink keys", run: () => flip(state.withSinks) },
    ...(state.facts.exact ? exactKeys(state, opened) : []),
    { key: "g", does: "go to a row and key", run: () => (opened.goTo.value = true) },
    { key: "r", does: "open the row of the cell", run: openRow },
  ];
}

function exactKeys(state: MapState, opened: Opened): Binding[] {
  return [
    { key: "u", does: "colour by × even share or by weight", run: () => flip(state.raw) },
    { key: "e", does: "exact weights around the cell", run: () => flip(opened.exact) },
  ];
}

export function flip(one: Signal<boolean>): void {
  one.value = !one.value;
}

/** Largest instead of mean, where the head can be drawn so. */
export function switchHow(state: MapState): void {
  const next = state.how.value === "mean" ? "max" : "mean";
  if (state.facts.levels[next].length) state.how.value = next;
}

function arrows(state: MapState): Binding[] {
  const one = (key: string, words: string, right: number, down: number): Binding => ({
    key,
    does: `move the map ${words}; with Shift, the cell`,
    run: (event) => {
      if (event.shiftKey) moveCursor(state, right, down);
      else {
        const { width, height } = state.size.peek();
        state.show(panned(state.view.peek(), -right * PART * width, -down * PART * height));
      }
    },
  });
  return [
    one("ArrowLeft", "left", -1, 0),
    one("ArrowRight", "right", 1, 0),
    one("ArrowUp", "up", 0, -1),
    one("ArrowDown", "down", 0, 1),
  ];
}

function moveCursor(state: MapState, right: number, down: number): void {
  const { x, y } = state.view.peek();
  const at = state.cursor.peek() ?? { row: Math.floor(y), key: Math.floor(Math.min(x, y)) };
  state.goTo({ row: at.row + down, key: at.key + right });
}
