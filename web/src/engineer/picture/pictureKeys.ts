import { amend } from "../../shell/address";
import { type Binding, useKeys } from "../../shell/keys";
import type { HeadShort } from "../../source/answers";
import { type Choice, chooseHead, isRollout, type Scene, type Spot } from "./choice";
import { along, moved } from "./layout";
import { DRAWINGS } from "./shades";

interface Moves {
  readonly scene: Scene;
  readonly choice: Choice;
  readonly looks: boolean;
  readonly heads: readonly HeadShort[];
  /** What arrow keys move: the spot, or where it is pinned the reading. */
  readonly cursor: Spot;
  readonly move: (to: Spot) => void;
  readonly pin: () => void;
  readonly release: () => void;
}

/** All of the page by keyboard. */
export function usePictureKeys(moves: Moves): void {
  const { scene, choice, looks, heads, cursor, move, pin, release } = moves;
  const to = (position: number) => move({ ...cursor, position });
  const axis = scene[cursor.side];
  const arrows = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].map(
    (key): Binding => ({
      key,
      does: "neighbouring patch or word",
      run: () => to(moved(axis, cursor.position, key)),
    }),
  );
  const at = heads.findIndex((one) => one.label === scene.head.label);
  const step = (by: number) => {
    const next = heads[(at + by + heads.length) % heads.length];
    if (next) chooseHead(next.label);
  };
  const drawing = DRAWINGS[(DRAWINGS.indexOf(choice.drawing) + 1) % DRAWINGS.length];
  useKeys("Picture", [
    ...arrows,
    { key: "n", does: "next position", run: () => to(along(axis, cursor.position, 1)) },
    { key: "p", does: "position before", run: () => to(along(axis, cursor.position, -1)) },
    { key: "Enter", does: "pin it and read weights", run: pin },
    { key: "Escape", does: "let go", run: release },
    {
      key: "w",
      does: "where it looks, who looks at it",
      run: () => scene.isOne && amend({ dir: looks && !isRollout(scene) ? "to" : "from" }),
    },
    {
      key: "r",
      does: "rollout, through all layers",
      run: () => scene.isOne && amend({ dir: isRollout(scene) ? undefined : "rollout" }),
    },
    { key: "m", does: "heat, contour, patches", run: () => amend({ draw: drawing }) },
    {
      key: "u",
      does: "× even share, weight",
      run: () => amend({ by: choice.isRaw ? undefined : "weight" }),
    },
    { key: "[", does: "head before", run: () => step(-1) },
    { key: "]", does: "next head", run: () => step(1) },
    {
      key: "g",
      does: "heads of the layer, of all layers",
      run: () => amend({ of: choice.of === "layer" ? "layers" : undefined }),
    },
  ]);
}
