import { useRef, useState } from "preact/hooks";
import { go } from "../../shell/address";
import { useKeys } from "../../shell/keys";
import type { Overview } from "../../source/answers";
import type { Where } from "../../source/source";
import { headPlace } from "../places";

/** The recorded head that a text names, however it is spelt: l17h3, cross.L0H1. */
export function namedHead(overview: Overview, text: string): string | undefined {
  const wanted = text.trim().toLowerCase();
  return overview.heads.find((one) => one.label.toLowerCase() === wanted)?.label;
}

/** Type a head's label and be there. */
export function GoTo({ overview, where }: { overview: Overview; where: Where }) {
  const input = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState("");
  useKeys("Overview", [
    { key: "/", does: "go to a head by its label", run: () => input.current?.focus() },
  ]);
  const example = overview.heads[Math.floor(overview.heads.length / 2)]?.label ?? "L0H0";
  const open = (event: Event) => {
    event.preventDefault();
    const text = input.current?.value ?? "";
    const found = namedHead(overview, text);
    if (found) go(headPlace(where, found));
    else setProblem(`${text || "Nothing"} is no recorded head; ${example} is one.`);
  };
  return (
    <form class="over-goto" onSubmit={open} data-part="goto">
      <label>
        <span class="soft">Go to head</span>
        <input
          ref={input}
          type="text"
          size={8}
          placeholder={example}
          autocomplete="off"
          spellcheck={false}
          title="press / to come here"
          aria-invalid={problem !== ""}
          onInput={() => setProblem("")}
          onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        />
      </label>
      <button type="submit">Open</button>
      {problem && (
        <span class="over-problem" role="alert">
          {problem}
        </span>
      )}
    </form>
  );
}
