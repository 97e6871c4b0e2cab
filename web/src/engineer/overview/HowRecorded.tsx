import type { ComponentChildren } from "preact";
import { count, short } from "../../maths/format";
import { Figure } from "../../parts/Figure";
import type { Overview } from "../../source/answers";

/** How it was recorded: the model, the plan, and how far replayed weights are from eager ones. */
export function HowRecorded({ overview }: { overview: Overview }) {
  const { model, made, plan, check } = overview;
  const lines: [string, ComponentChildren][] = [];
  const said = [model.family, model.dtype, model.device].filter(Boolean).join(", ");
  if (said) lines.push(["Model", `${said}${parameters(model.parameters)}`]);
  if (typeof plan.total_bytes === "number") lines.push(["Kept", kept(plan)]);
  if (typeof check.max_error === "number") {
    lines.push([
      "Check",
      <span key="check" data-part="check">
        replay against eager: max error <Figure value={check.max_error} />
        {typeof check.rows === "number" && ` on ${count(check.rows)} rows`}
        {typeof check.heads === "number" && ` of ${count(check.heads)} heads`}
      </span>,
    ]);
  }
  if (made.date) lines.push(["Made", `${String(made.date).slice(0, 10)}, regard ${made.regard}`]);
  if (!lines.length) return null;
  return (
    <section class="card" data-part="how-recorded">
      <h2>How it was recorded</h2>
      <dl class="over-facts">
        {lines.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function parameters(given: unknown): string {
  return typeof given === "number" ? `, ${short(given / 1e6)} million parameters` : "";
}

/** 254 MB; rows in bins of 8; maps of 16 tokens a cell */
function kept(plan: Overview["plan"]): string {
  const parts = [`${short(Number(plan.total_bytes) / 1e6)} MB`];
  const bin = Number(plan.row_bin ?? 1);
  parts.push(bin > 1 ? `statistics of ${count(bin)} rows a bin` : "statistics of every row");
  if (Number(plan.pool_cell ?? 0) > 0) parts.push(`maps of ${plan.pool_cell} tokens a cell`);
  return parts.join("; ");
}
