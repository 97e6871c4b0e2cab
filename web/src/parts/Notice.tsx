import type { ComponentChildren } from "preact";

type Kind = "info" | "warning" | "error" | "live";

/** Something about what is shown that the reader must know before reading it. */
export function Notice(props: { kind: Kind; children: ComponentChildren }) {
  const role = props.kind === "error" ? "alert" : "status";
  return (
    <div class={`notice ${props.kind}`} role={role}>
      {props.children}
    </div>
  );
}
