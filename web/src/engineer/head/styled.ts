/** A colour or a font of the style sheet, as it is now. */
export function styled(name: `--${string}`): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
