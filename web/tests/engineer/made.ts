import type { HeadShort, Overview, Stack } from "../../src/source/answers";

export function headOf(stack: string, layer: number, head: number, exact = true): HeadShort {
  const label = `${stack ? `${stack}.` : ""}L${layer}H${head}`;
  return { label, stack, layer, head, shape: [8, 8], kind: "self", recorded: [0, 8], exact };
}

export function stackOf(name: string, grid: (number | null)[][], statistic = "peak"): Stack {
  const heads = grid[0]?.length ?? 0;
  return { name, layers: grid.length, heads, grids: { [statistic]: grid } };
}

const SCALE = {
  name: "× even share",
  low: 0.1,
  high: 100,
  log: true,
  hidden: 0,
  first: 1,
  last: 255,
};

/** An overview with what a test is about. */
export function overviewOf(given: Partial<Overview>): Overview {
  return {
    recording: 0,
    name: "run.regard",
    revision: 0,
    live: false,
    damage: [],
    model: { name: "tiny" },
    made: {},
    plan: {},
    check: {},
    prompts: [],
    prompt: 0,
    statistics: {
      peak: { title: "heaviest key", words: "mean weight of a row's heaviest key", span: "one" },
      entropy: { title: "entropy", words: "mean entropy of a row, in nats", span: "entropy" },
      max_score: { title: "largest score", words: "largest scale·q·k", span: "spread" },
    },
    statistic: "peak",
    opens_on: null,
    glossary: {},
    scale: SCALE,
    caveat: "",
    stands_out: null,
    training: null,
    stacks: [],
    heads: [],
    problems: [],
    why_unknown: {},
    ...given,
  };
}
