import { useEffect, useMemo, useState } from "preact/hooks";
import { Legend } from "../../parts/Legend";
import type { Overview, Sight } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { type Answer, arrived, useAnswer } from "../answer";
import { Caveat } from "../Caveat";
import { spelledIfKnown } from "../head/spelling";
import { TokenBook } from "../head/tokenBook";
import { markReady } from "../states/ready";
import { Failed, Waiting } from "../states/Waiting";
import { AxisView } from "./AxisView";
import { Caption } from "./Caption";
import { Controls } from "./Controls";
import {
  choiceOf,
  choose,
  chooseHead,
  isRollout,
  looksOf,
  neighbours,
  type Scene,
  type Side,
  type Spot,
  sceneOf,
  sightedHeads,
} from "./choice";
import { HeadPicker } from "./HeadPicker";
import { HeadsGrid } from "./HeadsGrid";
import { useImages } from "./images";
import { framesOf, isGrid, nameOf, pictureOf, sizeOf, windowAt, windowOf } from "./layout";
import { usePictureKeys } from "./pictureKeys";
import { RolledCaption } from "./RolledCaption";
import { lookedAt, rolledOut } from "./rolled";
import { useHeard } from "./Spectrogram";
import { weightScale } from "./shades";
import "./picture.css";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
  readonly sight: Answer<Sight>;
}

/** Attention where it is looked at: over the picture, beside the words. */
export function PicturePage({ source, where, overview, sight }: Props) {
  const known = arrived(sight);
  const scene = known ? sceneOf(overview, known) : null;
  if (known && scene) return <Full {...{ source, where, overview, scene }} sight={known} />;
  return (
    <main class="page" data-part="picture">
      {sight.state === "failed" && <Failed error={sight.error} />}
      {sight.state === "waiting" && <Waiting words="Looking for pictures" />}
      {sight.state === "here" && (
        <p class="notice">This text was read without a picture or a sound.</p>
      )}
    </main>
  );
}

interface FullProps extends Omit<Props, "sight"> {
  readonly sight: Sight;
  readonly scene: Scene;
}

function Full({ source, where, overview, sight, scene }: FullProps) {
  const choice = choiceOf(scene);
  const [hover, setHover] = useState<Spot | null>(null);
  const [cursor, setCursor] = useState<number | null>(null); // read by keyboard, where pinned
  useEffect(() => setHover(null), [scene.head.label]);
  const isHoverHere = hover !== null && hover.position < sizeOf(scene[hover.side]);
  const rolls = isRollout(scene);
  const isFollowing = isHoverHere && !choice.isPinned && !rolls; // all layers are asked by a click
  const spot = isFollowing ? hover : choice.spot;
  const looks = looksOf(scene, spot);
  const other: Side = looks ? "keys" : "queries";
  const isRead = isHoverHere && (scene.isOne || hover.side === other);
  const read = choice.isPinned || rolls ? (isRead ? hover.position : cursor) : null;

  const at = { side: looks ? ("query" as const) : ("key" as const), position: spot.position };
  const depends = [
    source,
    where.recording,
    where.prompt,
    scene.head.label,
    ...Object.values(at),
    rolls,
  ];
  const name = depends.slice(1).join("/");
  const ask = async (stop: AbortSignal) => {
    const { label } = scene.head;
    const laid = rolls
      ? rolledOut(source, where, label, at.position, stop)
      : lookedAt(source, where, label, at, stop);
    return { ...(await laid), name };
  };
  const answer = useAnswer(ask, depends, true);
  const found = arrived(answer);
  const isFitting = found?.first?.weights.length === sizeOf(scene[other]);
  const overlay = isFitting ? found?.first : undefined;
  const exact = found?.name === name ? overlay : undefined; // the last one's colours stay, no number

  const { images, text, pictures, sound } = useWhatIsSeen(source, where, sight, scene);
  const scale =
    choice.isRaw && overlay ? weightScale(overlay.weights, overview.scale) : overview.scale;
  const called = (side: Side, position: number) =>
    nameOf(scene[side], position, spelledIfKnown(text[side](position)));
  const heads = useMemo(
    () => neighbours(overview, sight, scene, choice.of),
    [overview, sight, scene.head.label, choice.of],
  );
  const pick = (to: Spot) => {
    const isSame = choice.isPinned && to.position === choice.spot.position;
    setCursor(null);
    choose(to, !isSame && !rolls);
  };
  const readSide: Side = scene.isOne ? "queries" : other;
  usePictureKeys({
    ...{ scene, choice, looks },
    heads: sightedHeads(overview, sight),
    cursor: choice.isPinned
      ? { side: readSide, position: read ?? (scene.isOne ? spot.position : 0) }
      : choice.spot,
    move: (to) => {
      setHover(null);
      if (choice.isPinned) setCursor(to.position);
      else choose(to, false);
    },
    pin: () => choose(choice.spot, !choice.isPinned),
    release: () => {
      setCursor(null);
      choose(choice.spot, false);
    },
  });
  const toWindow = (point: { x: number; y: number }) => {
    const grid = scene.keys.find(isGrid)?.grid;
    if (!grid) return;
    const { own, heads: many } = windowOf(scene.place, scene.keys, scene.head.head);
    const label = scene.head.label.replace(/H\d+$/, `H${windowAt(grid, point) * many + own}`);
    if (overview.heads.some((one) => one.label === label)) chooseHead(label);
  };
  useEffect(() => {
    if (answer.state !== "waiting") markReady("picture");
  }, [answer.state]);
  const hasGrid = [...scene.queries, ...scene.keys].some(isGrid);
  const sides: readonly Side[] = scene.isOne ? ["keys"] : ["keys", "queries"];
  return (
    <main class="page pic" data-part="picture" data-head={scene.head.label}>
      <div class="pic-top">
        <h1>{hasGrid ? "Picture" : "Sound"}</h1>
        <HeadPicker {...{ overview, sight, scene, where }} row={looks ? spot.position : null} />
      </div>
      <Controls {...{ scene, choice, looks, rolls, hasGrid }} />
      {answer.state === "failed" && <Failed error={answer.error} />}
      <div class="pic-main">
        {sides.map((side) => (
          <AxisView
            key={side}
            {...{ scene, side, choice, spot, looks, read, scale, images, pictures, sound }}
            overlay={scene.isOne || side === other ? overlay : undefined}
            isExact={exact !== undefined}
            text={text[side]}
            onHover={setHover}
            onPick={pick}
            onOutside={toWindow}
          />
        ))}
        <div class="pic-side">
          {rolls && answer.state !== "failed" && (
            <RolledCaption
              {...{ scene, spot, read }}
              overlay={exact}
              rollout={found?.name === name ? found.rollout : undefined}
              name={called}
            />
          )}
          {!rolls && (
            <Caption
              {...{ scene, spot, looks, read }}
              overlay={exact}
              name={called}
              isPinned={choice.isPinned}
            />
          )}
          <Legend scale={scale} />
          <p class="soft pic-how">
            {rolls ? "Click" : "Hover"} a patch or a word, or move with the arrow keys.{" "}
            {rolls ? (
              "The share under the pointer is read."
            ) : (
              <>
                A click, or <kbd>Enter</kbd>, pins it; then the weight under the pointer is read.
              </>
            )}
          </p>
        </div>
      </div>
      {!rolls && scene[other].some(isGrid) && (
        <HeadsGrid
          {...{ source, where, scene, choice, at, heads, pictures, images }}
          axis={scene[other]}
          scale={overview.scale}
        />
      )}
      <Caveat words={overview.caveat} />
    </main>
  );
}

/** Pictures, and the texts of both sides. */
function useWhatIsSeen(source: Source, where: Where, sight: Sight, scene: Scene) {
  const numbers = [...scene.queries, ...scene.keys]
    .filter(isGrid)
    .flatMap((part) => framesOf(part).map((frame) => pictureOf(part, scene.window, frame)));
  const there = numbers.filter((n) => n < sight.pictures.length);
  const heard = useHeard(source, where, scene);
  const images = useImages(source, where, [...there, heard?.picture ?? -1]);
  const sound = heard && { ...heard, bitmap: images.get(heard.picture)?.bitmap ?? null };
  const { query_tokens, key_tokens } = scene.place;
  const [queries, keys] = [sizeOf(scene.queries), sizeOf(scene.keys)];
  const books = useMemo(
    () => ({
      queries: new TokenBook(source, where, query_tokens, queries),
      keys: new TokenBook(source, where, key_tokens, keys),
    }),
    [source, where.recording, where.prompt, query_tokens, key_tokens, queries, keys],
  );
  const textOf = (side: Side) => (position: number) => {
    const part = scene[side].find((one) => position < one.start + one.count);
    if (part?.kind !== "text") return null;
    books[side].news.value; // drawn again when texts come
    return books[side].text(position);
  };
  const text = { queries: textOf("queries"), keys: textOf("keys") };
  return { images, text, pictures: sight.pictures, sound };
}
