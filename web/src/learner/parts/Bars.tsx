import type { Vector } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { say } from "../language";

const MOST = 16;

interface Props {
  readonly title: string;
  readonly values: Vector;
  /** The largest size among all that are compared. */
  readonly most: number;
  readonly tone: string;
  readonly part: string;
}

/** A vector as bars from a middle line, each with its number. */
export function Bars({ title, values, most, tone, part }: Props) {
  const shown = values.slice(0, MOST);
  return (
    <figure class={`learn-bars role-${tone}`} data-part={part}>
      <figcaption>{title}</figcaption>
      <ol>
        {shown.map((value, d) => (
          <li key={d}>
            <span class="learn-track" aria-hidden="true">
              <i style={barOf(value, most)} />
            </span>
            <Figure value={value} />
          </li>
        ))}
      </ol>
      {values.length > MOST && (
        <p class="soft">{say("count.further", { count: values.length - MOST })}</p>
      )}
    </figure>
  );
}

function barOf(value: number, most: number): { left: string; width: string } {
  const half = most > 0 ? (50 * Math.abs(value)) / most : 0;
  return { left: `${value < 0 ? 50 - half : 50}%`, width: `${half}%` };
}
