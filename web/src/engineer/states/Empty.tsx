import { useEffect } from "preact/hooks";
import type { Overview } from "../../source/answers";
import { markReady } from "./ready";
import { Waiting } from "./Waiting";

/** A recording in which nothing is yet. */
export function Empty({ overview }: { overview: Overview }) {
  useEffect(() => markReady("empty"), []);
  return (
    <main class="state" data-part="empty">
      <h1>{overview.live ? "Nothing was recorded yet" : "This recording is empty"}</h1>
      {overview.live ? (
        <Waiting words="The model is running; the first rows will appear here." />
      ) : (
        <p>
          <code>{overview.name}</code> was begun and holds no prompt: recording stopped before the
          model was run. Record again:
        </p>
      )}
      {!overview.live && (
        <pre class="state-code">
          regard record smollm2 --text "The capital of France is" -o run.regard{"\n"}regard view
          run.regard
        </pre>
      )}
    </main>
  );
}
