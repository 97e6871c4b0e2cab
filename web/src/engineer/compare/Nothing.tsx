import { useEffect } from "preact/hooks";
import type { Overview } from "../../source/answers";
import type { Source } from "../../source/source";
import { markReady } from "../states/ready";

/** Only one prompt is here: how to have two. */
export function Nothing({ source, overview }: { source: Source; overview: Overview }) {
  useEffect(() => markReady("compare"), []);
  return (
    <section class="comp-nothing" data-part="nothing-to-compare">
      <p>
        A comparison needs two prompts, and there is one here. Compare two texts, checkpoints or
        dtypes.
        {source.kind === "file" && " This page is a file with one recording; use the server:"}
      </p>
      <pre class="state-code">
        regard view {overview.name} other.regard{"\n"}regard diff {overview.name} other.regard
      </pre>
      <p class="soft">
        A recording of several prompts can be compared with itself: <code>regard record</code> takes{" "}
        <code>--text</code> and <code>--file</code> more than once.
      </p>
    </section>
  );
}
