import { count, percent } from "../../maths/format";
import { linkTo } from "../../shell/address";
import type { Overview, PromptFacts } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { useAsked } from "../answer";
import { legible, shortened, spelled } from "../head/spelling";
import { rowPlace } from "../places";
import { Failed } from "../states/Waiting";
import { CONTINUED } from "../words";

const FIRST_TOKENS = 120;
const MOST_LETTERS = 120; // of a token
const MOST_NEXT = 24;

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
  /** Whose rows the tokens open. */
  readonly head: string | null;
}

/** How the text begins, and how the model would go on. */
export function PromptCard({ source, where, overview, head }: Props) {
  const facts = overview.prompts[where.prompt];
  if (!facts) return null;
  const own = overview.heads.find((one) => one.label === head);
  const rowOf = (n: number) =>
    own && n >= own.recorded[0] && n < own.recorded[1]
      ? linkTo(rowPlace(where, own.label, n))
      : null;
  return (
    <section class="card" data-part="prompt-text">
      <h2>The text</h2>
      {Object.entries(facts.streams).map(([name, tokens]) => (
        <Beginning
          key={name}
          {...{ source, where, stream: name, total: tokens }}
          rowOf={name === Object.keys(facts.streams)[0] ? rowOf : () => null}
        />
      ))}
      {!Object.keys(facts.streams).length && <p class="soft">The tokens were not recorded.</p>}
      <NextTokens next={facts.next} />
    </section>
  );
}

interface BeginningProps {
  readonly source: Source;
  readonly where: Where;
  readonly stream: string;
  readonly total: number | null;
  /** Where a token's row is; null where it has none. */
  readonly rowOf: (n: number) => string | null;
}

/** A token; a click opens its row. */
function Word({ text, to }: { text: string; to: string | null }) {
  const name = text === CONTINUED ? "over-word continued" : "over-word";
  return to === null ? (
    <span class={name}>{text}</span>
  ) : (
    <a class={name} href={to} tabIndex={-1} data-part="word">
      {text}
    </a>
  );
}

function Beginning({ source, where, stream, total, rowOf }: BeginningProps) {
  const part = { ...where, stream, start: 0, count: FIRST_TOKENS };
  const answer = useAsked(source, "tokens", part, { due: total, keep: true });
  if (answer.state === "failed") return <Failed error={answer.error} />;
  if (answer.state === "waiting") return <p class="soft">…</p>;
  const { tokens } = answer.value;
  if (!tokens.length) return <p class="soft">The tokens were not recorded.</p>;
  const isWhole = answer.value.total <= tokens.length;
  return (
    <blockquote class="over-text">
      {stream !== "tokens" && <span class="soft">{stream}: </span>}
      {tokens.map((token, n) => (
        <Word key={n} text={legible(shortened(token, MOST_LETTERS))} to={rowOf(n)} />
      ))}
      {!isWhole && "…"}
      <footer class="soft">{count(answer.value.total)} tokens</footer>
    </blockquote>
  );
}

function NextTokens({ next }: { next: PromptFacts["next"] }) {
  if (!next.length) return null;
  return (
    <>
      <h3>The model’s own next token</h3>
      <ol class="over-next" data-part="next-tokens">
        {next.map((one) => (
          <li key={one.token}>
            <code>{shortened(spelled(one.token), MOST_NEXT)}</code>
            <span class="over-bar" aria-hidden="true">
              <span style={{ width: `${100 * (one.probability ?? 0)}%` }} />
            </span>
            <span class="figure" data-value={one.probability ?? ""}>
              {percent(one.probability ?? Number.NaN)}
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
