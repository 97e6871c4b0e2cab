import { linkTo, place } from "../shell/address";
import type { Where } from "../source/source";
import { notePin, pinsOf, togglePin } from "./pins";
import { headPlace } from "./places";

/** Keeps a head in the address, or lets it go. */
export function PinButton({ label }: { label: string }) {
  const isPinned = pinsOf(place.value).has(label);
  return (
    <button
      type="button"
      data-part="pin"
      aria-pressed={isPinned}
      title={isPinned ? "No longer keep this head" : "Keep this head in the address"}
      onClick={() => togglePin(label)}
    >
      {isPinned ? "pinned" : "pin"}
    </button>
  );
}

/** A line about a pinned head, which the address keeps. */
export function PinNote({ label }: { label: string }) {
  const note = pinsOf(place.value).get(label);
  if (note === undefined) return null;
  return (
    <input
      type="text"
      data-part="pin-note"
      aria-label={`Note about ${label}`}
      placeholder="a note about this head"
      value={note}
      onChange={(event) => notePin(label, event.currentTarget.value)}
    />
  );
}

/** The heads that were pinned, with their notes. */
export function PinnedList({ where }: { where: Where }) {
  const pins = pinsOf(place.value);
  if (!pins.size) return null;
  return (
    <section class="card" data-part="pinned">
      <h2>Pinned heads</h2>
      <ul class="pins">
        {[...pins.keys()].map((label) => (
          <li key={label} data-head={label}>
            <a href={linkTo(headPlace(where, label))}>{label}</a>
            <PinNote label={label} />
            <button type="button" class="quiet" onClick={() => togglePin(label)}>
              <span aria-hidden="true">×</span>
              <span class="unseen">Let {label} go</span>
            </button>
          </li>
        ))}
      </ul>
      <p class="soft">The address of this page keeps them: a link shows the same.</p>
    </section>
  );
}
