import { Flow } from "./Flow";
import type { Frame } from "./frames";
import { gridOf } from "./geometry";
import { Heads, headsHeight } from "./Heads";
import { Meet } from "./Meet";
import type { FilmNumbers } from "./numbers";
import { Scale } from "./Scale";
import { Squeeze } from "./Squeeze";
import type { Scene } from "./timeline";

const UNDER: Readonly<Record<Exclude<Scene, "heads">, number>> = {
  meet: 8,
  scale: 8,
  squeeze: 84,
  flow: 48,
};

/** As high as the highest of the scenes, so that nothing below moves from scene to scene. */
export function stageHeight(numbers: FilmNumbers, scenes: readonly Scene[], width: number): number {
  const { bottom } = gridOf(numbers, width);
  return Math.max(
    ...scenes.map((scene) => (scene === "heads" ? headsHeight(numbers) : bottom + UNDER[scene])),
  );
}

interface Props {
  readonly numbers: FilmNumbers;
  readonly frame: Frame;
  readonly width: number;
  readonly height: number;
  /** What is to be seen, for those who cannot see it. */
  readonly words: string;
}

/** One frame of the film. */
export function Stage({ numbers, frame, width, height, words }: Props) {
  return (
    <svg
      class="motion-stage"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={words}
      data-part="motion-stage"
      data-scene={frame.scene}
    >
      <g
        transform={`translate(0 ${frame.scene === "heads" ? (height - headsHeight(numbers)) / 2 : 0})`}
      >
        <Picture numbers={numbers} frame={frame} width={width} />
      </g>
    </svg>
  );
}

function Picture({ numbers, frame, width }: Pick<Props, "numbers" | "frame" | "width">) {
  switch (frame.scene) {
    case "meet":
      return <Meet numbers={numbers} frame={frame.of} width={width} />;
    case "scale":
      return <Scale numbers={numbers} frame={frame.of} width={width} />;
    case "squeeze":
      return <Squeeze numbers={numbers} frame={frame.of} width={width} />;
    case "flow":
      return <Flow numbers={numbers} frame={frame.of} width={width} />;
    case "heads":
      return <Heads numbers={numbers} frame={frame.of} width={width} />;
  }
}
