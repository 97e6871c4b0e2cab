// The one palette: the same 256 colours as src/regard/colour/shades.py, from violet to yellow,
// even in lightness, so that it reads for colour-blind eyes and in grey. A test holds the two equal.

const STEPS = 256;
const LIGHTNESS = [0.2, 0.96] as const;
const CHROMA = [0.11, 0.17] as const;
const HUE = [300, 105] as const;

export type Rgb = readonly [red: number, green: number, blue: number];

function between(ends: readonly [number, number], part: number): number {
  return ends[0] + (ends[1] - ends[0]) * part;
}

/** Oklab (Ottosson 2020) to linear sRGB. */
function linear(light: number, chroma: number, hue: number): Rgb {
  const a = chroma * Math.cos(hue);
  const b = chroma * Math.sin(hue);
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
}

function encoded(light: number): number {
  const l = Math.min(Math.max(light, 0), 1);
  return Math.round(255 * (l <= 0.0031308 ? 12.92 * l : 1.055 * l ** (1 / 2.4) - 0.055));
}

function colour(code: number): Rgb {
  const part = code / (STEPS - 1);
  const light = between(LIGHTNESS, part);
  const hue = (between(HUE, part) * Math.PI) / 180;
  let chroma = between(CHROMA, part);
  let found = linear(light, chroma, hue);
  while (found.some((channel) => channel < 0 || channel > 1)) {
    chroma *= 0.98; // less colour where sRGB has none as strong
    found = linear(light, chroma, hue);
  }
  return [encoded(found[0]), encoded(found[1]), encoded(found[2])];
}

export const PALETTE: readonly Rgb[] = Array.from({ length: STEPS }, (_, code) => colour(code));

/** The colour of a share 0 … 1; beyond either end the end. NaN has no colour and gets the lowest. */
export function shade(share: number): Rgb {
  const clamped = Number.isNaN(share) ? 0 : Math.min(Math.max(share, 0), 1);
  return PALETTE[Math.round(clamped * (STEPS - 1))] as Rgb;
}

export function css(rgb: Rgb): string {
  return `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;
}

/** Whether black reads better on that colour than white. */
export function isLight(rgb: Rgb): boolean {
  const [red, green, blue] = rgb.map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue >= 0.179;
}
