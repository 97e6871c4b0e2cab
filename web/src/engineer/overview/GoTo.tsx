import { useRef, useState } from "preact/hooks";
import { go } from "../../shell/address";
import { useKeys } from "../../shell/keys";
import type { Overview } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { FoundWords } from "../FoundWords";
import { headPlace, rowPlace } from "../places";
import { numberIn } from "../words";

/** The recorded head that a text names, however it is spelt: l17h3, cross.L0H1. */
export function namedHead(overview: Overview, text: string): string | undefined {
  const wanted = text.trim().toLowerCase();
  return overview.heads.find((one) => one.label.toLowerCase() === wanted)?.label;
}

/** Whether a text is spelt as a head's label, recorded or not. */
function looksLikeHead(text: string): boolean {
  return /^\s*([a-z]+\.)?l\d+(h\d+)?\s*$/i.test(text);
}

interface Props {
  readonly source: Source;
  readonly overview: Overview;
  readonly where: Where;
  /** Whose rows words and numbers open. */
  readonly head: string | null;
}

/** Type a head's label and be there; a row's number, or words of the text. */
export function GoTo({ source, overview, where, head }: Props) {
  const [words, setWords] = useState("");
  const input = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState("");
  useKeys("Overview", [
    { key: "/", does: "go to a head, a row or words", run: () => input.current?.focus() },
  ]);
  const example = overview.heads[Math.floor(overview.heads.length / 2)]?.label ?? "L0H0";
  const own = overview.heads.find((one) => one.label === head);
  const stream = Object.keys(overview.prompts[where.prompt]?.streams ?? {})[0];
  const open = (event: Event) => {
    event.preventDefault();
    const text = input.current?.value ?? "";
    const found = namedHead(overview, text);
    const [first, stop] = own?.recorded ?? [0, 0];
    const row = numberIn(text, first, stop - 1);
    setWords("");
    if (found) go(headPlace(where, found));
    else if (own && row !== null) go(rowPlace(where, own.label, row));
    else if (own && text.trim() && !looksLikeHead(text)) setWords(text);
    else setProblem(`${text || "Nothing"} is no recorded head; ${example} is one.`);
  };
  return (
    <form class="over-goto" onSubmit={open} data-part="goto">
      <label>
        <span class="soft">Go to</span>
        <input
          ref={input}
          type="text"
          size={18}
          placeholder={`${example}, a row, or words`}
          autocomplete="off"
          spellcheck={false}
          title="press / to come here"
          aria-invalid={problem !== ""}
          onInput={() => {
            setProblem("");
            setWords("");
          }}
          onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        />
      </label>
      <button type="submit">Open</button>
      {problem && (
        <span class="over-problem" role="alert">
          {problem}
        </span>
      )}
      {words && own && stream !== undefined && (
        <FoundWords
          {...{ source, where, stream, words }}
          head={own.label}
          total={Math.min(own.recorded[1], own.shape[0])}
        />
      )}
    </form>
  );
}
