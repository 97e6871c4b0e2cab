import type { PictureFacts, Scale } from "../../source/answers";
import type { Overlay } from "../../source/binary";
import { spelledIfKnown } from "../head/spelling";
import { Board } from "./Board";
import { Chips } from "./Chips";
import { Curve } from "./Curve";
import type { Choice, Scene, Side, Spot } from "./choice";
import type { Image } from "./images";
import {
  type AxisParts,
  cellOf,
  framesOf,
  type GridPart,
  isGrid,
  laid,
  nameOf,
  partAt,
  pictureOf,
  placedOf,
  positionOf,
} from "./layout";
import { type Sound, timeAt } from "./Spectrogram";

const MOST_CHIPS = 512;

export interface AxisViewProps {
  readonly scene: Scene;
  readonly side: Side;
  readonly choice: Choice;
  readonly spot: Spot;
  readonly looks: boolean;
  readonly read: number | null;
  /** What lies on this axis; undefined where it lies on the other, or is on its way. */
  readonly overlay: Overlay | undefined;
  /** Whether it is of this spot; until it comes, the last one's colours stay. */
  readonly isExact: boolean;
  readonly scale: Scale;
  readonly pictures: readonly PictureFacts[];
  readonly images: ReadonlyMap<number, Image>;
  /** The sound that positions are moments of; null where it was not kept. */
  readonly sound: Sound | null;
  readonly text: (position: number) => string | null | undefined;
  readonly onHover: (spot: Spot | null) => void;
  readonly onPick: (spot: Spot) => void;
  readonly onOutside: (at: { x: number; y: number }) => void;
}

/** Everything that the positions of one side are: pictures, words, moments. */
export function AxisView(props: AxisViewProps) {
  const axis = props.scene[props.side];
  const boards = axis
    .filter(isGrid)
    .flatMap((part) => framesOf(part).map((frame) => ({ part, frame })));
  const left = axis.filter(isGrid).reduce((sum, part) => sum + part.grid.frames, -boards.length);
  return (
    <div class="pic-axis" data-part={`picture-${props.side}`}>
      {boards.length > 0 && (
        <div class={boards.length > 1 ? "pic-boards many" : "pic-boards"}>
          {boards.map(({ part, frame }) => (
            <GridView key={`${part.start}/${frame}`} {...{ part, frame, axis }} {...props} />
          ))}
        </div>
      )}
      {left > 0 && <p class="soft">{left} later frames are not shown.</p>}
      <div class="pic-beside">
        {axis.map((part) =>
          part.kind === "frames" ? (
            <Curve
              key={part.start}
              part={part}
              weights={props.overlay?.weights ?? null}
              sound={props.sound}
              {...marks(props)}
            />
          ) : (
            <PartChips key={part.start} axis={axis} start={part.start} {...props} />
          ),
        )}
      </div>
    </div>
  );
}

/** Of one axis: where the spot and the reading lie, and what a pointer does. */
function marks({ scene, side, spot, looks, read, onHover, onPick }: AxisViewProps) {
  const isRead = scene.isOne || (looks ? side === "keys" : side === "queries");
  const own = scene.isOne ? "queries" : side;
  return {
    spot: scene.isOne || spot.side === side ? spot.position : null,
    read: isRead ? read : null,
    onHover: (position: number | null) =>
      onHover(position === null ? null : { side: own, position }),
    onPick: (position: number) => onPick({ side: own, position }),
  };
}

interface GridProps extends AxisViewProps {
  readonly part: GridPart;
  readonly frame: number;
  readonly axis: AxisParts;
}

function GridView({ part, frame, axis, ...props }: GridProps) {
  const { scene, choice, images, pictures, overlay, scale } = props;
  const { spot, read, onHover, onPick } = marks(props);
  const number = pictureOf(part, scene.window, frame);
  const facts = number < 0 ? undefined : pictures[number];
  const image = images.get(number);
  const cell = (position: number | null) => {
    const isHere = position !== null && partAt(axis, position) === part;
    const found = isHere ? cellOf(part, position) : null;
    return found?.frame === frame ? found : null;
  };
  const numbers = overlay && (choice.isRaw ? overlay.weights : overlay.times);
  const { rows, columns } = placedOf(part.grid, scene.window);
  const seconds = facts?.seconds;
  const names = [
    part.grid.frames > 1 ? `frame ${frame}` : "",
    facts?.title,
    typeof seconds === "number" ? `${seconds.toFixed(2)} s` : "",
  ];
  const title = names.filter(Boolean).join(", ") || (number >= 0 ? `picture ${number}` : "patches");
  return (
    <figure class="pic-one">
      <Board
        scene={{
          ...{ part, window: scene.window, image: image?.bitmap ?? null, scale },
          values: numbers ? laid(part, numbers, frame, scene.window) : null,
          drawing: choice.drawing,
          opacity: choice.opacity,
          spot: cell(spot),
          read: cell(read),
          looks: props.looks,
        }}
        frame={frame}
        ratio={facts ? facts.height / facts.width : rows / columns}
        words={`${title}: ${rows} × ${columns} patches; ${props.looks ? "where" : "who looks at"} ${nameOf(axis, props.spot.position)} ${props.looks ? "looks" : ""}`.trim()}
        part="board"
        onHover={(at) => onHover(at ? positionOf(part, at) : null)}
        onPick={(at) => onPick(positionOf(part, at))}
        onOutside={props.onOutside}
      />
      <figcaption class="soft">
        {title}, {part.grid.height} × {part.grid.width} patches
        {image?.why && <span data-part="no-picture"> · {image.why}</span>}
        {!image && number < 0 && <span data-part="no-picture"> · no picture was kept</span>}
      </figcaption>
    </figure>
  );
}

function PartChips({ axis, start, ...props }: AxisViewProps & { axis: AxisParts; start: number }) {
  const part = partAt(axis, start);
  if (!part) return null;
  const count = isGrid(part) ? part.grid.prefix.length : part.count;
  if (!count) return null;
  const first = start + Math.max(count - MOST_CHIPS, 0);
  const chips = Array.from({ length: start + count - first }, (_, n) => {
    const position = first + n;
    const text = part.kind === "text" ? spelledIfKnown(props.text(position)) : "";
    const isSaid = part.kind === "text" && props.side === "queries" && !props.scene.isOne;
    const time = isSaid ? timeAt(props.sound, position) : "";
    return { position, text: text || nameOf(axis, position), time };
  });
  const title = part.kind === "text" ? "Words" : isGrid(part) ? "Beside the patches" : part.what;
  const numbers =
    props.overlay && (props.choice.isRaw ? props.overlay.weights : props.overlay.times);
  return (
    <>
      {first > start && <p class="soft">… {first - start} earlier ones are not shown</p>}
      <Chips
        {...{ title, chips, scale: props.scale }}
        values={numbers ?? null}
        weights={props.isExact ? (props.overlay?.weights ?? null) : null}
        part={part.kind === "text" ? "words" : isGrid(part) ? "prefix" : "others"}
        {...marks(props)}
      />
    </>
  );
}
