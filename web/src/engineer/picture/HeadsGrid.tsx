import { useMemo } from "preact/hooks";
import { amend } from "../../shell/address";
import type { HeadShort, PictureFacts, Scale } from "../../source/answers";
import type { Overlay, OverlayAt } from "../../source/binary";
import type { Source, Where } from "../../source/source";
import { arrived, useAnswer } from "../answer";
import { Failed } from "../states/Waiting";
import { Board } from "./Board";
import { Press } from "./Controls";
import { type Choice, chooseHead, type Scene } from "./choice";
import type { Image } from "./images";
import {
  type AxisParts,
  frameAt,
  type GridPart,
  isGrid,
  laid,
  pictureOf,
  placedOf,
  sizeOf,
} from "./layout";
import { massOf, weightScale } from "./shades";

export const MOST_HEADS = 64;

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly scene: Scene;
  readonly choice: Choice;
  readonly at: OverlayAt;
  readonly axis: AxisParts;
  readonly heads: readonly HeadShort[];
  readonly scale: Scale;
  readonly pictures: readonly PictureFacts[];
  readonly images: ReadonlyMap<number, Image>;
}

/** The same question to many heads, as small pictures. */
export function HeadsGrid(props: Props) {
  const { source, where, choice, at, heads } = props;
  const shown = heads.slice(0, MOST_HEADS);
  const labels = shown.map((one) => one.label);
  const depends = [source, where.recording, where.prompt, labels.join(), at.side, at.position];
  const ask = (stop: AbortSignal) =>
    labels.length ? source.overlays(where, labels, at, stop) : Promise.resolve([]);
  const answer = useAnswer(ask, depends, true);
  const overlays = arrived(answer);
  return (
    <section class="pic-heads" data-part="heads-grid">
      <div class="pic-heads-top">
        <h2>{choice.of === "layer" ? "All heads of the layer" : "This head in every layer"}</h2>
        <fieldset class="pic-switch" aria-label="Which heads">
          <Press on={choice.of === "layer"} run={() => amend({ of: undefined })} hint="g">
            Layer
          </Press>
          <Press on={choice.of === "layers"} run={() => amend({ of: "layers" })} hint="g">
            Layers
          </Press>
        </fieldset>
      </div>
      {answer.state === "failed" && <Failed error={answer.error} />}
      <div class="pic-heads-grid">
        {shown.map((head, n) => (
          <SmallHead key={head.label} {...props} head={head} overlay={overlays?.[n]} />
        ))}
      </div>
      {heads.length > shown.length && (
        <p class="soft">
          The first {shown.length} of {heads.length}.
        </p>
      )}
    </section>
  );
}

interface SmallProps extends Props {
  readonly head: HeadShort;
  readonly overlay: Overlay | undefined;
}

function SmallHead({ head, overlay, scene, choice, axis, scale, ...props }: SmallProps) {
  const { at, pictures, images } = props;
  const own = overlay?.weights.length === sizeOf(axis) ? overlay : undefined;
  const part = busiest(axis, own);
  const frame = part && scene.isOne ? frameAt(axis, part, at.position) : 0;
  const values = useMemo(
    () => own && part && laid(part, choice.isRaw ? own.weights : own.times, frame, scene.window),
    [own, part, frame, choice.isRaw, scene.window],
  );
  if (!part) return null;
  const { rows, columns } = placedOf(part.grid, scene.window);
  const number = pictureOf(part, scene.window, frame);
  const facts = number < 0 ? undefined : pictures[number];
  const isChosen = head.label === scene.head.label;
  return (
    <button
      type="button"
      class="pic-small"
      aria-pressed={isChosen}
      data-head={head.label}
      onClick={() => chooseHead(head.label)}
    >
      <Board
        scene={{
          ...{ part, window: scene.window, image: images.get(number)?.bitmap ?? null },
          values: values ?? null,
          scale: choice.isRaw && own ? weightScale(own.weights, scale) : scale,
          drawing: choice.drawing === "contour" ? "heat" : choice.drawing,
          opacity: choice.opacity,
          ...{ spot: null, read: null, looks: true },
        }}
        frame={frame}
        ratio={facts ? facts.height / facts.width : rows / columns}
        words={`${head.label} over ${facts?.title || "the picture"}`}
      />
      <span class="mono">{head.label}</span>
    </button>
  );
}

/** Of several grids the one with the most weight. */
export function busiest(axis: AxisParts, overlay: Overlay | undefined): GridPart | undefined {
  const grids = axis.filter(isGrid);
  if (!overlay || grids.length < 2) return grids[0];
  const masses = grids.map((part) => massOf(overlay.weights, part.start, part.count));
  return grids[masses.indexOf(Math.max(...masses))];
}
