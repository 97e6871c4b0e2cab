import { useEffect, useState } from "preact/hooks";
import { place } from "../../shell/address";
import type { Overview } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { modelName } from "../modelName";
import { pinsOf } from "../pins";
import { markReady } from "../states/ready";
import { TwoHeads } from "./TwoHeads";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
}

/** Only one prompt is here: two of its heads can be compared; and how to have two prompts. */
export function Nothing({ source, where, overview }: Props) {
  useEffect(() => markReady("compare"), []);
  const labels = overview.heads.map((one) => one.label);
  const [first, second] = chosenOf(overview, labels);
  const both = { where, labels, name: overview.name };
  return (
    <>
      <section class="comp-nothing" data-part="nothing-to-compare">
        <p>
          There is one prompt here. To compare every head over two texts, checkpoints or dtypes,
          open or record a second one.
          {source.kind === "file" && " This page is a file with one recording; use the server:"}
        </p>
        <Command
          title="Open another recording beside this one"
          text={`regard view ${overview.name} other.regard`}
        />
        <Command
          title="Record another text with the same model"
          text={`regard record ${modelName(overview) || "MODEL"} --file other.txt -o other.regard`}
        />
        <Command
          title="Compare in the terminal"
          text={`regard diff ${overview.name} other.regard`}
        />
        <p class="soft">
          A recording of several prompts can be compared with itself: <code>regard record</code>{" "}
          takes <code>--text</code> and <code>--file</code> more than once.
        </p>
      </section>
      {first && second && (
        <TwoHeads
          source={source}
          left={{ ...both, label: first, word: "head" }}
          right={{ ...both, label: second, word: "second" }}
        />
      )}
    </>
  );
}

/** The heads that the address names; else what is pinned, what stands out, and the next one. */
function chosenOf(overview: Overview, labels: readonly string[]) {
  const { head = "", second = "" } = place.value;
  const pinned = [...pinsOf(place.value).keys()].filter((one) => labels.includes(one));
  const own = labels.includes(head) ? head : (pinned[0] ?? overview.opens_on ?? labels[0]);
  const others = [...pinned, ...labels.slice(labels.indexOf(own ?? "") + 1), ...labels];
  return [own, labels.includes(second) ? second : (others.find((one) => one !== own) ?? own)];
}

function Command({ title, text }: { title: string; text: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <div class="comp-command">
      <span>{title}</span>
      <pre class="state-code">{text}</pre>
      <button
        type="button"
        data-part="copy"
        onClick={() => navigator.clipboard?.writeText(text).then(() => setCopied(true))}
      >
        {isCopied ? "Copied" : "Copy"}
      </button>
    </div>
  );
}
