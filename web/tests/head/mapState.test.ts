import { describe, expect, it } from "vitest";
import { MapState } from "../../src/engineer/head/mapState";
import type { HeadFacts } from "../../src/source/answers";

const facts = (more: Partial<HeadFacts> = {}) =>
  ({
    ...{ label: "L0H0", shape: [2000, 2000], recorded: [0, 2000], exact: true, kind: "self" },
    levels: { mean: [1, 2, 4, 8], max: [1, 2, 4, 8] },
    tracks: { received: null, distance: null, entropy: null },
    ...more,
  }) as unknown as HeadFacts;

function stateOf(words: Record<string, string> = {}, more: Partial<HeadFacts> = {}): MapState {
  const state = new MapState(facts(more), words);
  state.ratio.value = 1;
  state.size.value = { width: 500, height: 500 };
  return state;
}

describe("the map's state", () => {
  it("starts with the whole, and says nothing of it in the address", () => {
    const state = stateOf();
    expect(state.view.value).toEqual({ x: 1000, y: 1000, z: 0.25 });
    expect(state.level.value).toBe(4);
    expect(Object.values(state.words()).filter(Boolean)).toEqual([]);
  });

  it("is made again from its words", () => {
    const state = stateOf();
    state.goTo({ row: 671, key: 611 }, 16);
    state.how.value = "max";
    state.linear.value = true;
    state.withSinks.value = false;
    const words = Object.fromEntries(
      Object.entries(state.words()).filter((pair) => pair[1] !== undefined),
    ) as Record<string, string>;
    expect(words).toEqual({
      ...{ x: "611.50", y: "671.50", z: "16", at: "671,611" },
      ...{ how: "max", ink: "linear", sinks: "hidden" },
    });
    const again = stateOf(words);
    expect(again.view.value).toEqual(state.view.value);
    expect(again.cursor.value).toEqual({ row: 671, key: 611 });
    expect(again.how.value).toBe("max");
  });

  it("takes nonsense in an address for nothing", () => {
    for (const words of [{ x: "a", y: "1", z: "2" }, { x: "1", y: "1", z: "-2" }, { at: "" }]) {
      const state = stateOf(words as Record<string, string>);
      expect(state.view.value.z).toBe(0.25);
      expect(state.cursor.value).toBeNull();
    }
    expect(stateOf({ at: "5000,1" }).cursor.value).toBeNull();
    expect(stateOf({ at: "1.5,1" }).cursor.value).toBeNull();
  });

  it("colours raw weights only where each token has a pixel", () => {
    const state = stateOf({ colour: "weight" });
    expect(state.colouring.value).toBe("mean");
    state.goTo({ row: 5, key: 5 }, 4);
    expect([state.colouring.value, state.level.value]).toEqual(["raw", 1]);
  });

  it("starts small where the whole would be computed for long", () => {
    const long = { shape: [131072, 131072], recorded: [0, 131072] } as Partial<HeadFacts>;
    const state = stateOf({}, { ...long, levels: { mean: [1, 2, 4, 8, 128], max: [] } });
    expect(state.overview.value).toBeNull();
    expect(state.view.value.z).toBe(1 / 8);
    expect(state.level.value).toBe(8);
    state.showWhole();
    expect(state.level.value).toBe(128);
  });

  it("gets no nearer than a stored map allows, and shows nothing without one", () => {
    const stored = stateOf({}, { exact: false, levels: { mean: [64, 128], max: [] } });
    stored.zoom(1e6);
    expect(stored.view.value.z).toBe(16 / 64);
    expect(stateOf({}, { exact: false, levels: { mean: [], max: [] } }).level.value).toBeNull();
  });

  it("keeps the cursor within the matrix", () => {
    const state = stateOf();
    state.goTo({ row: -3, key: 99999 });
    expect(state.cursor.value).toEqual({ row: 0, key: 1999 });
  });
});
