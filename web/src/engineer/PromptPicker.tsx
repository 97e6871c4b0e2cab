import { go, place } from "../shell/address";
import type { Listing, Overview } from "../source/answers";
import type { Where } from "../source/source";
import { legible, shortened } from "./head/spelling";
import { samePlace } from "./places";

interface Props {
  readonly where: Where;
  readonly listings: readonly Listing[];
  readonly overview: Overview | undefined;
}

export interface Choice extends Where {
  readonly text: string;
}

const MOST_LETTERS = 40;

/** Every prompt of every recording that is served, and those without one, as a training run is;
 * titles are known of the one that is shown. */
export function choicesOf(
  listings: readonly Listing[],
  overview: Overview | undefined,
): readonly Choice[] {
  return listings.flatMap((listing) =>
    Array.from({ length: Math.max(listing.prompts, 1) }, (_, prompt) => {
      const isShown = overview?.recording === listing.recording;
      const title = isShown ? (overview.prompts[prompt]?.title ?? "") : "";
      const named = listings.length > 1 ? [listing.name] : [];
      const numbered = listing.prompts > 1 || !named.length ? [`prompt ${prompt}`] : [];
      const titled = title ? [legible(shortened(title, MOST_LETTERS))] : [];
      const text = [...named, ...numbered, ...titled].join(" · ");
      return { recording: listing.recording, prompt, text };
    }),
  );
}

export function PromptPicker({ where, listings, overview }: Props) {
  const choices = choicesOf(listings, overview);
  if (choices.length < 2) return null;
  const keyOf = (one: Where) => `${one.recording}/${one.prompt}`;
  return (
    <label class="room-picker">
      <span class="unseen">Recording and prompt</span>
      <select
        data-part="prompt-picker"
        value={keyOf(where)}
        onChange={(event) => {
          const chosen = choices.find((one) => keyOf(one) === event.currentTarget.value);
          if (chosen) go(samePlace(place.value, chosen));
        }}
      >
        {choices.map((one) => (
          <option key={keyOf(one)} value={keyOf(one)}>
            {one.text}
          </option>
        ))}
      </select>
    </label>
  );
}
