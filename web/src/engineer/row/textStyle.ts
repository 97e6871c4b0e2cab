import { css, isLight, shade } from "../../colour/palette";
import type { Theme } from "../../shell/theme";

/** The more weight, the farther from the paper: dark on light paper, bright on dark. What gets next
 * to nothing stays plain text. */
export function textStyle(share: number, on: Theme) {
  if (!(share > 0)) return {};
  const rgb = shade(on === "light" ? 1 - share : share);
  return { background: css(rgb), color: isLight(rgb) ? "#000" : "#fff" };
}
