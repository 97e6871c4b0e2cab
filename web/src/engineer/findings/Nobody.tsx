import { sentence } from "../../maths/format";
import type { Report } from "../../source/answers";

/** Why no head is listed, in the words of whoever answers; a file may carry heads without labels. */
export function Nobody({ report }: { report: Report }) {
  return (
    <p data-part="no-finding">
      {sentence(report.why_nobody || "no head that this file carries has a label")}
    </p>
  );
}
