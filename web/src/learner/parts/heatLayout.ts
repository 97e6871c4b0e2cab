/** Where the cells of a map stand, in CSS pixels. */
export interface HeatLayout {
  readonly count: number;
  readonly left: number;
  readonly top: number;
  readonly cellWidth: number;
  readonly cellHeight: number;
  readonly width: number;
  readonly height: number;
  /** What stands in the map besides the colours; numbers come with names. */
  readonly detail: "numbers" | "names" | "none";
}

export interface HeatCell {
  readonly row: number;
  readonly key: number;
}

interface Space {
  /** The side of a map of many tokens. */
  readonly side: number;
  /** What the page has room for. */
  readonly room: number;
  /** Of its text. */
  readonly em: number;
}

const FEW = 8; // tokens whose weights stand in their cells
const LETTERS = 9; // of a name
// in em
const LETTER = 0.62;
const NUMBER = { least: 2.7, width: 3.3, height: 2.5 };
const NAMED = { least: 1, most: 2.4 };
const MARGIN = 0.9; // of the mark, where no names are

/** Numbers and names in the map as long as they can be read; else the cells alone. */
export function heatLayout(labels: readonly string[], { side, room, em }: Space): HeatLayout {
  const count = labels.length;
  const longest = Math.max(0, ...labels.map((label) => [...label].length));
  const names = Math.ceil((Math.min(longest, LETTERS) * LETTER + 0.9) * em);
  const wide = Math.floor(Math.min((room - names) / count, NUMBER.width * em));
  if (count <= FEW && wide >= NUMBER.least * em) {
    const high = Math.floor(NUMBER.height * em);
    return placed(count, "numbers", [names, Math.ceil(1.8 * em)], [wide, high]);
  }
  const named = Math.floor(Math.min(side / count, (room - names) / count, NAMED.most * em));
  if (named >= NAMED.least * em) return placed(count, "names", [names, names], [named, named]);
  const margin = Math.ceil(MARGIN * em);
  const bare = Math.max(Math.min(side, room - margin) / count, 0);
  return placed(count, "none", [margin, 0], [bare, bare]);
}

type Pair = readonly [across: number, down: number];

function placed(
  count: number,
  detail: HeatLayout["detail"],
  [left, top]: Pair,
  [cellWidth, cellHeight]: Pair,
): HeatLayout {
  const [width, height] = [left + count * cellWidth, top + count * cellHeight];
  return { count, left, top, cellWidth, cellHeight, width, height, detail };
}

/** The cell at a point of the picture; none beside the cells. */
export function cellAt(layout: HeatLayout, x: number, y: number): HeatCell | null {
  const key = Math.floor((x - layout.left) / layout.cellWidth);
  const row = Math.floor((y - layout.top) / layout.cellHeight);
  const isIn = row >= 0 && row < layout.count && key >= 0 && key < layout.count;
  return isIn ? { row, key } : null;
}

const STEPS: Readonly<Record<string, readonly [row: number, key: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** The cell that a key leads to, the edges included; none where the key leads nowhere. */
export function cellBeside(layout: HeatLayout, cell: HeatCell, pressed: string): HeatCell | null {
  const step = STEPS[pressed];
  if (!step) return null;
  const within = (at: number) => Math.min(Math.max(at, 0), layout.count - 1);
  return { row: within(cell.row + step[0]), key: within(cell.key + step[1]) };
}
