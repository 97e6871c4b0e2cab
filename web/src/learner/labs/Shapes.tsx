import { useSignal } from "@preact/signals";
import { say } from "../language";
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
  const names = [0, 1, 2].map(
    (n) => state.lesson.labels[n] ?? say("count.token", { number: n + 1 }),
  );
  const isRight = way.value === "transposed";
  return (
    <Lab part="shapes" title={say("lab_shapes.title")}>
      {sizeWords(state) && <p data-part="shapes-size">{sizeWords(state)}</p>}
      <p>
        {say("lab_shapes.text", {
          tokens: TOKENS,
          width: WIDTH,
          heads: HEADS,
          size: WIDTH / HEADS,
        })}
      </p>
      <Choice
        part="ways"
        words={say("lab_shapes.split")}
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
          ? say("lab_shapes.right")
          : say("lab_shapes.wrong", { first: names[0] ?? "", last: names[2] ?? "" })}
      </p>
    </Lab>
  );
}

/** How what is shown is related to the lesson's x; nothing where it is all of it. */
function sizeWords(state: LessonState): string {
  const { x } = state.worked.value;
  const [rows, columns] = [x.length, x[0]?.length ?? 0];
  if (rows === TOKENS && columns === WIDTH) return "";
  const words = { rows, columns, tokens: TOKENS, width: WIDTH };
  return say(rows < TOKENS || columns < WIDTH ? "lab_shapes.apart" : "lab_shapes.cut", words);
}

function Split({ way, head, names }: { way: Way; head: number; names: readonly string[] }) {
  return (
    <figure class="lab-numbers" data-part={`head-${head}`}>
      <figcaption>{say("count.head", { number: head })}</figcaption>
      <table>
        <tbody>
          {Array.from({ length: TOKENS }, (_, row) => (
            <tr key={row}>
              <th scope="row">{say("lab_shapes.row", { row })}</th>
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
