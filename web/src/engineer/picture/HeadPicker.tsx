import { linkTo } from "../../shell/address";
import type { Overview, Sight } from "../../source/answers";
import type { Where } from "../../source/source";
import { headPlace, rowPlace } from "../places";
import { chooseHead, placeLabel, type Scene, sightedHeads } from "./choice";
import { isGrid, windowOf, windowsOf } from "./layout";

interface Props {
  readonly overview: Overview;
  readonly sight: Sight;
  readonly scene: Scene;
  readonly where: Where;
  /** The query of the row that is shown; null for a column. */
  readonly row: number | null;
}

/** Which layer, head and window. */
export function HeadPicker({ overview, sight, scene, where, row }: Props) {
  const heads = sightedHeads(overview, sight);
  const places = [...new Set(heads.map((one) => placeLabel(one.label)))];
  const own = placeLabel(scene.head.label);
  const axis = scene.keys.some(isGrid) ? scene.keys : scene.queries;
  const windows = windowsOf(axis);
  const at = windowOf(scene.place, axis, scene.head.head);
  const go = (place: string, head: number) => {
    const all = heads.filter((one) => placeLabel(one.label) === place);
    const found = all.find((one) => one.head === head) ?? all[0];
    if (found) chooseHead(found.label);
  };
  const within = (window: number, head: number) => go(own, window * at.heads + head);
  return (
    <div class="pic-picker">
      <label>
        Layer{" "}
        <select value={own} onChange={(event) => go(event.currentTarget.value, scene.head.head)}>
          {places.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
      <label>
        Head{" "}
        <select
          value={String(at.own)}
          onChange={(event) => within(at.window, Number(event.currentTarget.value))}
        >
          {Array.from({ length: at.heads }, (_, n) => (
            <option key={n} value={String(n)}>
              {n}
            </option>
          ))}
        </select>
      </label>
      {windows > 1 && (
        <label>
          {axis.find(isGrid)?.grid.apart ? "Picture" : "Window"}{" "}
          <select
            data-part="window"
            value={String(at.window)}
            onChange={(event) => within(Number(event.currentTarget.value), at.own)}
          >
            {Array.from({ length: windows }, (_, n) => (
              <option key={n} value={String(n)}>
                {n}
              </option>
            ))}
          </select>
        </label>
      )}
      <a href={linkTo(headPlace(where, scene.head.label))}>Its map</a>
      {row !== null && <a href={linkTo(rowPlace(where, scene.head.label, row))}>This row</a>}
    </div>
  );
}
