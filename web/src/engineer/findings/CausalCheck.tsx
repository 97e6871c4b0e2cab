import { count } from "../../maths/format";
import type { Report } from "../../source/answers";

/** How to learn what depends on a head, and what of it is in this recording already. */
export function CausalCheck({ report }: { report: Report }) {
  const kept = Object.keys(report.knocked).length;
  return (
    <p class="soft" data-part="causal-check">
      {report.causal_check}{" "}
      {kept > 0 ? (
        `Of ${count(kept)} ${kept === 1 ? "head" : "heads"} the result is kept in this recording.`
      ) : (
        <>
          None is kept in this recording; <code>regard report {report.file} --causal --keep</code>{" "}
          adds those of the heads that stand out.
        </>
      )}
    </p>
  );
}
