import type { Rollout } from "../../source/answers";
import type { Overlay } from "../../source/binary";
import { Waiting } from "../states/Waiting";
import { masses, Reading } from "./Caption";
import type { Scene, Spot } from "./choice";
import { heaviestOf } from "./shades";

interface Props {
  readonly scene: Scene;
  readonly spot: Spot;
  /** The position whose share is read. */
  readonly read: number | null;
  readonly overlay: Overlay | undefined;
  /** Undefined while it is on its way. */
  readonly rollout: Rollout | null | undefined;
  readonly name: (side: Spot["side"], position: number) => string;
}

/** What a token is made of through all layers, in words and exact numbers; or why that is not told. */
export function RolledCaption({ scene, spot, read, overlay, rollout, name }: Props) {
  const shown = read ?? (overlay ? heaviestOf(overlay.weights)?.position : null) ?? null;
  return (
    <div class="pic-caption" data-part="picture-caption">
      {!rollout && <Waiting words="Following all layers" />}
      {rollout?.why && (
        <p class="notice" role="status" data-part="rollout-refused">
          {`There is no rollout here. ${rollout.why}`}
        </p>
      )}
      {rollout && overlay && shown !== null && (
        <p>
          <strong class="q">{name("queries", spot.position)}</strong>
          {` comes, through all ${rollout.layers} layers, from `}
          <strong class="k">{name("keys", shown)}</strong>
          {read === null && <span class="soft"> most</span>}:{" "}
          <Reading overlay={overlay} position={shown} />
        </p>
      )}
      {overlay && <p class="soft">{masses(scene.keys, overlay.weights, true)}</p>}
      {rollout && (
        <p class="soft" data-part="rollout-what">
          {[rollout.what, rollout.caution].join(" ").trim()}
        </p>
      )}
    </div>
  );
}
