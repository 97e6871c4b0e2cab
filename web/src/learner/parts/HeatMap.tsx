import { useEffect, useRef } from "preact/hooks";
import { css, isLight, shade } from "../../colour/palette";
import { shareOf } from "../../colour/scale";
import { figure } from "../../maths/format";
import type { Matrix } from "../../maths/matrix";
import { Legend } from "../../parts/Legend";

interface Props {
  readonly weights: Matrix;
  readonly labels: readonly string[];
  readonly mark: number;
  /** Which keys no row of weights may see: the later ones. */
  readonly causal: boolean;
}

const CELLS = 32; // tokens up to which every weight is a cell of its own
const WITH_TEXT = 8;
const CODES = { hidden: 0, first: 1, last: 255 };
const SCALE = { name: "weight", low: 0, high: 1, log: false, ...CODES };
// Among many keys every weight is small: what tells is how often the even share it is.
const MANY = { name: "weight × keys seen", low: 0.1, high: 100, log: true, ...CODES };

/** All weights at once: each row is a query and sums to 1. */
export function HeatMap(props: Props) {
  const isSmall = props.labels.length <= CELLS;
  return (
    <figure class="learn-heat" data-part="heat-map">
      <figcaption>Rows look, columns are looked at.</figcaption>
      {isSmall ? <Cells {...props} /> : <Pixels {...props} />}
      <Legend scale={isSmall ? SCALE : MANY} words={isSmall ? "" : "1 is an even share"} />
    </figure>
  );
}

function Cells({ weights, labels, mark, causal }: Props) {
  return (
    <div class="scroll">
      <table>
        <caption class="unseen">Weights as colours</caption>
        <thead>
          <tr>
            <td />
            {labels.map((label) => (
              <th key={label} scope="col" title={label}>
                <span>{label}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {weights.map((row, r) => (
            <tr key={r} class={r === mark ? "is-marked" : ""}>
              <th scope="row" title={labels[r]}>
                {labels[r]}
              </th>
              {row.map((weight, c) => (
                <WeightCell
                  key={c}
                  weight={weight}
                  isHidden={causal && c > r}
                  withText={labels.length <= WITH_TEXT}
                />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function WeightCell(props: { weight: number; isHidden: boolean; withText: boolean }) {
  const { weight } = props;
  if (props.isHidden) {
    return (
      <td class="is-hidden" data-part="weight-cell" data-value={String(weight)} title="hidden">
        ·
      </td>
    );
  }
  const colour = shade(weight);
  return (
    <td
      data-part="weight-cell"
      data-value={String(weight)}
      title={String(weight)}
      style={{ background: css(colour), color: isLight(colour) ? "black" : "white" }}
    >
      {props.withText && figure(weight, 2)}
    </td>
  );
}

function Pixels({ weights, labels, mark, causal }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const count = labels.length;
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen) return;
    const image = pen.createImageData(count, count);
    weights.forEach((row, r) => {
      row.forEach((weight, c) => {
        if (causal && c > r) return; // left transparent
        const times = weight * (causal ? r + 1 : count);
        image.data.set([...shade(shareOf(times, MANY)), 255], 4 * (r * count + c));
      });
    });
    pen.putImageData(image, 0, 0);
  }, [weights, causal, count]);
  const words = `Weights of ${count} tokens; the table of ${labels[mark]} has one row as numbers.`;
  return (
    <div class="learn-pixels">
      <canvas ref={canvas} width={count} height={count} role="img" aria-label={words} />
      <i style={{ top: `${(100 * (mark + 0.5)) / count}%` }} title={`row of ${labels[mark]}`} />
    </div>
  );
}
