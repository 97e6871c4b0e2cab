import { expect, it } from "vitest";
import { isLight, PALETTE, shade } from "../../src/colour/palette";
import { shareOf, valueOfCode } from "../../src/colour/scale";
import { vectors } from "./vectors";

const { codes } = vectors;
const SCALE = {
  name: "× even share",
  low: codes.low,
  high: codes.high,
  log: true,
  hidden: 0,
  first: 1,
  last: 255,
};

it("the palette is Python's, to the last of its 256 colours", () => {
  expect(PALETTE).toEqual(vectors.palette);
  expect(PALETTE.map(isLight)).toEqual(vectors.light);
});

it("shares beyond either end have the end's colour", () => {
  codes.shares.forEach((share, n) => {
    expect(shade(share)).toEqual(PALETTE[codes.codes[n] as number]);
  });
});

it("a value stands on the scale where Python puts it", () => {
  codes.times.forEach((value, n) => {
    expect(shareOf(value, SCALE)).toBeCloseTo(codes.time_shares[n] as number, 12);
  });
});

it("a tile's code stands for the value it was made from, within half a step", () => {
  const step = Math.log(codes.high / codes.low) / 254;
  codes.times.forEach((value, n) => {
    const clamped = Math.min(Math.max(value, codes.low), codes.high);
    const decoded = valueOfCode(codes.tile_codes[n] as number, SCALE);
    expect(Math.abs(Math.log(decoded / clamped))).toBeLessThanOrEqual(step / 2 + 1e-9);
  });
  expect(valueOfCode(0, SCALE)).toBeNaN();
});
