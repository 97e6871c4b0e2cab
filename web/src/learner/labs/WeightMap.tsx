import { useEffect, useRef } from "preact/hooks";
import { css, isLight, shade } from "../../colour/palette";
import { figure } from "../../maths/format";
import type { Matrix } from "../../maths/matrix";
import { Legend } from "../../parts/Legend";

interface Props {
  readonly title: string;
  readonly weights: Matrix;
  readonly labels: readonly string[];
  readonly causal: boolean;
  /** The row that is spelt out beside it. */
  readonly mark: number;
}

const WITH_NUMBERS = 6; // tokens
const SCALE = { name: "weight", low: 0, high: 1, log: false, hidden: 0, first: 1, last: 255 };

/** Weights as colours on 0 … 1: rows look, columns are looked at. */
export function WeightMap(props: Props) {
  return props.labels.length <= WITH_NUMBERS ? <Cells {...props} /> : <Pixels {...props} />;
}

/** What the colours of the maps above it stand for. */
export function WeightLegend() {
  return <Legend scale={SCALE} words="rows look at columns" />;
}

function Cells({ title, weights, labels, causal, mark }: Props) {
  return (
    <table class="lab-cells">
      <caption class="unseen">{title}</caption>
      <thead>
        <tr>
          <td />
          {labels.map((label) => (
            <th key={label} scope="col">
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {weights.map((row, r) => (
          <tr key={r} class={r === mark ? "is-marked" : ""}>
            <th scope="row">{labels[r]}</th>
            {row.map((weight, c) => (
              <Cell key={c} weight={weight} isHidden={causal && c > r} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Cell({ weight, isHidden }: { weight: number; isHidden: boolean }) {
  if (isHidden) return <td data-value={String(weight)}>·</td>;
  const colour = shade(weight);
  const ink = isLight(colour) ? "black" : "white";
  return (
    <td
      data-value={String(weight)}
      title={String(weight)}
      style={{ background: css(colour), color: ink }}
    >
      {figure(weight, 2)}
    </td>
  );
}

function Pixels({ title, weights, labels, causal, mark }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const count = labels.length;
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen) return;
    const image = pen.createImageData(count, count);
    weights.forEach((row, r) => {
      row.forEach((weight, c) => {
        if (causal && c > r) return; // hidden: left as the paper
        image.data.set([...shade(weight), 255], 4 * (r * count + c));
      });
    });
    pen.putImageData(image, 0, 0);
  }, [weights, causal, count]);
  const row = (weights[mark] ?? []).map((weight, c) => `${labels[c]} ${figure(weight, 2)}`);
  return (
    <div class="lab-map">
      <canvas
        ref={canvas}
        width={count}
        height={count}
        role="img"
        aria-label={`${title}. Row of ${labels[mark]}: ${row.slice(0, 12).join(", ")}`}
      />
      <i class="lab-mark" aria-hidden="true" style={{ top: `${(100 * (mark + 0.5)) / count}%` }} />
    </div>
  );
}
