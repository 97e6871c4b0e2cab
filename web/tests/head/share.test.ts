import { describe, expect, it } from "vitest";
import { numbersAsText } from "../../src/engineer/share/picture";
import { element, escaped, scaleBar, text } from "../../src/engineer/share/svg";
import type { Scale } from "../../src/source/answers";

describe("vector pictures", () => {
  it("say tokens as text, whatever they hold", () => {
    expect(escaped('<script>"&\u0000\ud800')).toBe("&lt;script&gt;&quot;&amp;\ufffd\ufffd");
    expect(text("</text><x>", { x: 1 })).toBe('<text x="1">&lt;/text&gt;&lt;x&gt;</text>');
    expect(element("rect", { x: 1 / 3, fill: undefined })).toBe('<rect x="0.333"/>');
  });

  it("print the ends of their scale", () => {
    const scale: Scale = {
      ...{ name: "× even share", low: 0.1, high: 100, log: true },
      ...{ hidden: 0, first: 1, last: 255 },
    };
    const tints = { paper: "#fff", ink: "#000", soft: "#555", sans: "sans", mono: "mono" };
    const bar = scaleBar(scale, 0, 0, 200, tints);
    expect(bar).toContain("≤ 0.1");
    expect(bar).toContain("≥ 100");
  });
});

describe("numbers as JSON", () => {
  it("has null for what is no number", () => {
    expect(numbersAsText({ weights: [0.5, Number.NaN] })).toBe('{"weights":[0.5,null]}');
  });
});
