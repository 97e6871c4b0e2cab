import { css, isLight, shade } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import type { Scale } from "../../source/answers";

export interface Chip {
  readonly position: number;
  readonly text: string;
  /** When the word that begins here was said; empty elsewhere. */
  readonly time?: string;
}

interface Props {
  readonly title: string;
  readonly chips: readonly Chip[];
  /** By position; null where nothing lies on this axis. */
  readonly values: Float32Array | null;
  readonly weights: Float32Array | null;
  readonly scale: Scale;
  readonly spot: number | null;
  readonly read: number | null;
  readonly onHover: (position: number | null) => void;
  readonly onPick: (position: number) => void;
  readonly part: string;
}

/** Tokens beside a picture, shaded by their weight. */
export function Chips({ title, chips, part, ...own }: Props) {
  const first = chips.find((one) => one.position === own.spot) ?? chips[0];
  return (
    <fieldset class="pic-chips" data-part={part}>
      <legend>{title}</legend>
      {chips.map((chip) => (
        <OneChip key={chip.position} chip={chip} isFirst={chip === first} {...own} />
      ))}
    </fieldset>
  );
}

interface OneProps extends Omit<Props, "title" | "chips" | "part"> {
  readonly chip: Chip;
  readonly isFirst: boolean;
}

function OneChip({ chip, isFirst, values, weights, scale, spot, read, onHover, onPick }: OneProps) {
  const value = values?.[chip.position] ?? Number.NaN;
  const share = Number.isFinite(value) ? shareOf(value, scale) : Number.NaN;
  const rgb = Number.isNaN(share) ? null : shade(share);
  const ink = rgb ? { background: css(rgb), color: isLight(rgb) ? "#000" : "#fff" } : {};
  const weight = weights?.[chip.position] ?? Number.NaN;
  return (
    <button
      type="button"
      class={chip.position === read ? "pic-chip read" : "pic-chip"}
      style={ink}
      aria-pressed={chip.position === spot}
      tabIndex={isFirst ? 0 : -1}
      data-position={chip.position}
      data-value={String(weight)}
      title={Number.isFinite(weight) ? `${chip.text}: ${weight}` : chip.text}
      onPointerEnter={() => onHover(chip.position)}
      onPointerLeave={() => onHover(null)}
      onClick={() => onPick(chip.position)}
    >
      {chip.text}
      {chip.time && <small data-part="word-time">{chip.time}</small>}
    </button>
  );
}
