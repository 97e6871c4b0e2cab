import type { Place } from "../../shell/address";
import type { HeadFacts } from "../../source/answers";
import type { Tile } from "../../source/binary";
import type { Source, Where } from "../../source/source";
import { CellBook } from "./cellBook";
import { codeOf, RAW_SCALE } from "./inks";
import { MapState } from "./mapState";
import { namesOf } from "./names";
import { TileStore } from "./tileStore";
import { TILE, type TileAt } from "./tiling";
import { TokenBook } from "./tokenBook";
import type { Shape } from "./view";

/** Everything that a head's map is drawn from. */
export interface MapTools {
  readonly state: MapState;
  readonly tiles: TileStore;
  readonly cells: CellBook;
  readonly queryTokens: TokenBook;
  readonly keyTokens: TokenBook;
}

export function mapTools(source: Source, where: Where, facts: HeadFacts, words: Place): MapTools {
  const state = new MapState(facts, words);
  const { label, streams } = facts;
  const tiles = new TileStore((at, stop) =>
    at.how === "raw"
      ? rawTile(source, where, label, state.shape, at, stop)
      : source.tile(where, label, { ...at, how: at.how }, stop),
  );
  const cells = new CellBook(state.shape, (rows, keys) => source.cells(where, label, rows, keys));
  const named = (side: "queries" | "keys") => namesOf(source, where, label, side);
  const keyTokens = new TokenBook(source, where, streams.keys, state.shape.keys, named("keys"));
  const isSame =
    facts.kind === "self" &&
    streams.keys === streams.queries &&
    state.shape.queries <= state.shape.keys;
  const queryTokens = isSame
    ? keyTokens
    : new TokenBook(source, where, streams.queries, state.shape.queries, named("queries"));
  return { state, tiles, cells, queryTokens, keyTokens };
}

/** A tile of single weights, coded here along their own scale. */
async function rawTile(
  source: Source,
  where: Where,
  label: string,
  shape: Shape,
  at: TileAt,
  stop: AbortSignal,
): Promise<Tile> {
  const [row, key] = [at.y * TILE, at.x * TILE];
  const tall = Math.min(TILE, shape.queries - row);
  const wide = Math.min(TILE, shape.keys - key);
  const { weights } = await source.cells(where, label, [row, tall], [key, wide], stop);
  const codes = new Uint8Array(TILE * TILE);
  weights.forEach((weight, n) => {
    codes[Math.floor(n / wide) * TILE + (n % wide)] = codeOf(weight, RAW_SCALE);
  });
  return { codes, nan: 0 };
}
