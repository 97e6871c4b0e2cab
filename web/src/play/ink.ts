const HEX = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i;

/** A colour of the style sheet as red, green, blue. */
export function rgbOf(element: Element | null, name: string): [number, number, number] {
  const text = element ? getComputedStyle(element).getPropertyValue(name).trim() : "";
  const found = HEX.exec(text);
  if (!found) return [128, 128, 128];
  return [1, 2, 3].map((n) => Number.parseInt(found[n] ?? "80", 16)) as [number, number, number];
}
