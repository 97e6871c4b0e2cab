import { count, percent } from "../../maths/format";
import type { Overview, PromptFacts } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { useAsked } from "../answer";
import { legible, shortened, spelled } from "../head/spelling";
import { Failed } from "../states/Waiting";

const FIRST_TOKENS = 120;
const MOST_LETTERS = 120; // of a token
const MOST_NEXT = 24;

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
}

/** How the text begins, and how the model would go on. */
export function PromptCard({ source, where, overview }: Props) {
  const facts = overview.prompts[where.prompt];
  if (!facts) return null;
  return (
    <section class="card" data-part="prompt-text">
      <h2>The text</h2>
      {Object.entries(facts.streams).map(([name, tokens]) => (
        <Beginning key={name} source={source} where={where} stream={name} total={tokens} />
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
}

function Beginning({ source, where, stream, total }: BeginningProps) {
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
      {tokens.map((token) => legible(shortened(token, MOST_LETTERS))).join("")}
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
