import { useLayoutEffect, useRef } from "preact/hooks";
import { theme } from "../shell/theme";
import type { Block, Card } from "./api";
import { rgbOf } from "./ink";
import { type Chosen, choose, labelOf, mode, off, pinWord, toggleHead } from "./place";

const SIDE = 44;

interface Props {
  readonly cards: readonly Card[] | null;
  readonly block: Block | null;
  readonly stack: string;
  readonly at: Chosen;
}

/** Heads that stand out on this prompt, each with a switch; heads that are off stay in it. */
export function Strip({ cards, block, stack, at }: Props) {
  if (!cards) {
    return (
      <div class="play-strip" data-part="strip" aria-busy="true">
        {Array.from({ length: 6 }, (_, n) => (
          <div key={n} class="play-card is-empty" />
        ))}
      </div>
    );
  }
  const named = new Set(cards.map((card) => card.label));
  const others = off.value.filter((label) => !named.has(label));
  if (!cards.length && !others.length) {
    return <p class="soft">No head stands out on so few words. Type a longer prompt.</p>;
  }
  return (
    <ul class="play-strip" data-part="strip" aria-label="Heads that stand out">
      {cards.map((card) => (
        <HeadCard
          key={card.label}
          label={card.label}
          name={card.name}
          sentence={card.sentence}
          note={card.note}
          isChosen={mode.value === "head" && labelOf(at) === card.label}
          block={card.stack === stack ? block : null}
          place={card}
          onChoose={() => {
            choose(card);
            if (card.row !== null) pinWord(card.row);
          }}
        />
      ))}
      {others.map((label) => (
        <HeadCard key={label} label={label} name="switched off" sentence="" block={null} />
      ))}
    </ul>
  );
}

interface CardProps {
  readonly label: string;
  readonly name: string;
  readonly sentence: string;
  readonly note?: string | undefined;
  readonly isChosen?: boolean;
  readonly block: Block | null;
  readonly place?: Chosen;
  readonly onChoose?: () => void;
}

function HeadCard({ label, name, sentence, note, isChosen, block, place, onChoose }: CardProps) {
  const isOff = off.value.includes(label);
  return (
    <li
      class={["play-card", isChosen && "is-chosen", isOff && "is-off"].filter(Boolean).join(" ")}
      data-part="card"
      data-head={label}
      title={sentence}
    >
      <button type="button" class="play-card-main" onClick={onChoose} disabled={!onChoose}>
        <span aria-hidden="true">{block && place && <Thumbnail block={block} at={place} />}</span>
        <span class="play-card-words">
          <span class="play-card-name">{name}</span>
          <span class="figure soft">{label}</span>
          {note && <span class="figure play-card-note">{note}</span>}
        </span>
      </button>
      <button
        type="button"
        role="switch"
        class="play-switch"
        aria-checked={!isOff}
        aria-label={`${label}, ${name}`}
        data-part="switch"
        onClick={() => toggleHead(label)}
      >
        <span class="play-knob" aria-hidden="true" />
      </button>
    </li>
  );
}

/** The head's whole map, as small as it gets. */
function Thumbnail({ block, at }: { block: Block; at: Chosen }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { rows, keys } = block;
  useLayoutEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen || at.layer >= block.layers || at.head >= block.heads) return;
    const image = pen.createImageData(keys, rows);
    const ink = rgbOf(canvas.current, "--weight");
    const start = (at.layer * block.heads + at.head) * rows * keys;
    for (let n = 0; n < rows * keys; n += 1) {
      const weight = block.numbers[start + n] ?? 0;
      image.data.set(ink, 4 * n);
      image.data[4 * n + 3] = 255 * Math.sqrt(Math.min(weight, 1));
    }
    pen.putImageData(image, 0, 0);
  }, [block, at.layer, at.head, theme.value]);
  return (
    <canvas
      ref={canvas}
      class="play-thumb"
      width={keys}
      height={rows}
      style={{ width: `${SIDE}px`, height: `${SIDE}px` }}
    />
  );
}
