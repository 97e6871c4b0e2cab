import { amend, type Place, place } from "../shell/address";

// Heads that a reader keeps, with a note each, as one word of the address: L5H1~copies|L7H0.
// The address keeps the word wherever one goes (`shell/address.ts`).

export type Pins = ReadonlyMap<string, string>;

const BETWEEN = "|";
const NOTE = "~";
const MOST_LETTERS = 200;

export function pinsOf({ pins = "" }: Place): Pins {
  const pairs = pins.split(BETWEEN).filter(Boolean);
  return new Map(
    pairs.map((pair) => {
      const [label = "", ...note] = pair.split(NOTE);
      return [label, note.join(NOTE)];
    }),
  );
}

export function pinsWord(pins: Pins): string | undefined {
  const pairs = [...pins].map(([label, note]) => {
    const plain = note.replaceAll(BETWEEN, "/").slice(0, MOST_LETTERS);
    return plain ? `${label}${NOTE}${plain}` : label;
  });
  return pairs.join(BETWEEN) || undefined;
}

/** Pin a head, or let it go. */
export function togglePin(label: string): void {
  const pins = new Map(pinsOf(place.peek()));
  if (!pins.delete(label)) pins.set(label, "");
  amend({ pins: pinsWord(pins) });
}

export function notePin(label: string, note: string): void {
  const pins = new Map(pinsOf(place.peek()));
  pins.set(label, note);
  amend({ pins: pinsWord(pins) });
}
