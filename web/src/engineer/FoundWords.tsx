import { linkTo } from "../shell/address";
import type { Source, Where } from "../source/source";
import { useAnswer } from "./answer";
import { legible, shortened } from "./head/spelling";
import { TokenBook } from "./head/tokenBook";
import { rowPlace } from "./places";
import { Failed, Waiting } from "./states/Waiting";
import { CONTINUED, textsOf, tokensWith } from "./words";

const AROUND = 4; // tokens before and after, for the reader to know the place
const MOST = 100;
const LETTERS = 40;

interface Props {
  readonly source: Source;
  readonly where: Where;
  /** Whose row is opened. */
  readonly head: string;
  readonly stream: string;
  readonly total: number;
  readonly words: string;
}

/** The tokens at which some words begin; each opens its row. */
export function FoundWords({ source, where, head, stream, total, words }: Props) {
  const texts = useAnswer(
    () => textsOf(new TokenBook(source, where, stream, total), total),
    [source, where.recording, where.prompt, stream, total],
  );
  if (texts.state === "failed") return <Failed error={texts.error} />;
  if (texts.state === "waiting") return <Waiting words="Reading the text" />;
  const found = tokensWith(texts.value, words);
  if (!found.length) {
    return (
      <p class="soft" role="status" data-part="no-words">
        “{shortened(words, LETTERS)}” is not in the text.
      </p>
    );
  }
  return (
    <ol class="found-words" data-part="found-words" aria-label="Where the words begin">
      {found.slice(0, MOST).map((n) => (
        <li key={n}>
          <a href={linkTo(rowPlace(where, head, n))} data-token={n}>
            row {n}
          </a>{" "}
          <span class="soft">{around(texts.value, n - AROUND, n)}</span>
          <mark>{legible(texts.value[n] ?? "")}</mark>
          <span class="soft">{around(texts.value, n + 1, n + 1 + AROUND)}</span>
        </li>
      ))}
      {found.length > MOST && <li class="soft">and {found.length - MOST} more</li>}
    </ol>
  );
}

function around(texts: readonly (string | null)[], from: number, to: number): string {
  const some = texts.slice(Math.max(from, 0), to).filter((one) => one !== CONTINUED);
  return legible(some.join("")).replaceAll("\n", "⏎");
}
