import { useSignal } from "@preact/signals";
import type { LessonState } from "../state";
import { Choice, Lab } from "./Lab";

type Way = "transposed" | "viewed";

interface Entry {
  readonly token: number;
  readonly feature: number;
}

const WAYS: readonly { readonly value: Way; readonly text: string }[] = [
  { value: "transposed", text: "x.view(N, H, d/H).transpose(0, 1)" },
  { value: "viewed", text: "x.view(H, N, d/H)" },
];
const TOKENS = 3;
const WIDTH = 4;
const HEADS = 2;

/** Which number of x stands at (head, row, column). Memory keeps the order of x in both ways. */
export function entryAt(way: Way, head: number, row: number, column: number): Entry {
  const size = WIDTH / HEADS;
  const at =
    way === "transposed"
      ? row * WIDTH + head * size + column
      : (head * TOKENS + row) * size + column;
  return { token: Math.floor(at / WIDTH), feature: at % WIDTH };
}

/** What view and transpose do: one of the two ways mixes tokens up, and both have the same shape. */
export function Shapes({ state }: { state: LessonState }) {
  const way = useSignal<Way>("transposed");
  const names = [0, 1, 2].map((n) => state.lesson.labels[n] ?? `token ${n + 1}`);
  const isRight = way.value === "transposed";
  return (
    <Lab part="shapes" title="What view and transpose do">
      <p>
        x has N = {TOKENS} rows of d = {WIDTH} numbers, for H = {HEADS} heads. Memory holds them row
        by row; view only counts them anew. Both ways below give the shape (H, N, d/H) = ({HEADS},{" "}
        {TOKENS}, {WIDTH / HEADS}).
      </p>
      <Choice
        part="ways"
        words="Split x into heads by"
        options={WAYS}
        chosen={way.value}
        choose={(value) => {
          way.value = value;
        }}
      />
      <div class="lab-controls">
        {Array.from({ length: HEADS }, (_, head) => (
          <Split key={head} {...{ head, names }} way={way.value} />
        ))}
      </div>
      <p role="status" data-part="shapes-verdict" data-right={String(isRight)}>
        {isRight
          ? "Right: in every head, row i is token i. Each head has its own numbers of every token. On the way back: transpose first, then view as (N, d)."
          : `Wrong, and nothing complains: head 0 holds ${names[0]} twice and ${names[2]} not at all. The same happens on the way back if transpose is left out.`}
      </p>
    </Lab>
  );
}

function Split({ way, head, names }: { way: Way; head: number; names: readonly string[] }) {
  return (
    <figure class="lab-numbers" data-part={`head-${head}`}>
      <figcaption>head {head}</figcaption>
      <table>
        <tbody>
          {Array.from({ length: TOKENS }, (_, row) => (
            <tr key={row}>
              <th scope="row">row {row}</th>
              {Array.from({ length: WIDTH / HEADS }, (_, column) => {
                const { token, feature } = entryAt(way, head, row, column);
                return (
                  <td key={column} class={token === row ? "" : "lab-raw"} data-token={token}>
                    {names[token]}
                    <sub>{feature + 1}</sub>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}
