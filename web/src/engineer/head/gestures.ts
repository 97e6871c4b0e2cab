import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";
import type { MapState, Point } from "./mapState";
import { cellAt, panned } from "./view";

// Drag, wheel, double click and pinch on the map.

const WHEEL = 0.0016;
const LINE = 16; // pixels of one line of a wheel that counts lines
const STILL = 4; // pixels within which a press is a click

export function useGestures(canvas: RefObject<HTMLElement | null>, state: MapState): void {
  useEffect(() => {
    const at = canvas.current;
    if (!at) return;
    const hand = new Hand(at, state);
    const control = new AbortController();
    const { signal } = control;
    at.addEventListener("pointerdown", (event) => hand.down(event), { signal });
    at.addEventListener("pointermove", (event) => hand.move(event), { signal });
    at.addEventListener("pointerup", (event) => hand.up(event), { signal });
    at.addEventListener("pointercancel", (event) => hand.lose(event), { signal });
    at.addEventListener("pointerleave", () => hand.leave(), { signal });
    at.addEventListener("wheel", (event) => hand.wheel(event), { signal, passive: false });
    at.addEventListener("dblclick", (event) => hand.double(event), { signal });
    return () => control.abort();
  }, [canvas, state]);
}

class Hand {
  readonly #on: HTMLElement;
  readonly #state: MapState;
  readonly #fingers = new Map<number, Point>();
  #moved = 0;

  constructor(on: HTMLElement, state: MapState) {
    this.#on = on;
    this.#state = state;
  }

  down(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.#on.setPointerCapture(event.pointerId);
    this.#fingers.set(event.pointerId, this.#point(event));
    if (this.#fingers.size === 1) this.#moved = 0;
  }

  move(event: PointerEvent): void {
    const now = this.#point(event);
    const before = this.#fingers.get(event.pointerId);
    if (before && this.#fingers.size === 2) this.#pinch(event.pointerId, before, now);
    else if (before) this.#drag(before, now);
    if (before) this.#fingers.set(event.pointerId, now);
    const { view, size, shape, pointer } = this.#state;
    if (event.pointerType === "touch") return;
    const cell = cellAt(view.peek(), size.peek(), shape, now);
    const held = pointer.peek();
    if (cell?.row !== held?.row || cell?.key !== held?.key) pointer.value = cell;
  }

  up(event: PointerEvent): void {
    const isClick = this.#fingers.size === 1 && this.#moved < STILL;
    this.lose(event);
    if (!isClick) return;
    const { view, size, shape, cursor } = this.#state;
    cursor.value = cellAt(view.peek(), size.peek(), shape, this.#point(event));
  }

  lose(event: PointerEvent): void {
    this.#fingers.delete(event.pointerId);
  }

  leave(): void {
    if (this.#fingers.size === 0) this.#state.pointer.value = null;
  }

  wheel(event: WheelEvent): void {
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? event.deltaY * LINE : event.deltaY;
    const pinch = event.ctrlKey ? 6 : 1; // a touch pad's pinch comes as small turns of the wheel
    this.#state.zoom(Math.exp(-pixels * WHEEL * pinch), this.#point(event));
  }

  double(event: MouseEvent): void {
    event.preventDefault();
    this.#state.zoom(event.shiftKey ? 0.5 : 2, this.#point(event));
  }

  #drag(before: Point, now: Point): void {
    const [right, down] = [now.x - before.x, now.y - before.y];
    this.#moved += Math.abs(right) + Math.abs(down);
    if (this.#moved < STILL) return;
    this.#state.show(panned(this.#state.view.peek(), right, down));
  }

  #pinch(moving: number, before: Point, now: Point): void {
    const other = [...this.#fingers].find(([id]) => id !== moving)?.[1];
    if (!other) return;
    this.#moved += STILL;
    const middle = (a: Point) => ({ x: (a.x + other.x) / 2, y: (a.y + other.y) / 2 });
    const apart = (a: Point) => Math.max(Math.hypot(a.x - other.x, a.y - other.y), 1);
    const [from, to] = [middle(before), middle(now)];
    this.#state.show(panned(this.#state.view.peek(), to.x - from.x, to.y - from.y));
    this.#state.zoom(apart(now) / apart(before), to);
  }

  #point(event: MouseEvent): Point {
    const box = this.#on.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }
}
