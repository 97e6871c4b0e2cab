import type { ComponentChildren } from "preact";

/** A sign and what follows it, which stay on one line. */
export function With({ sign, children }: { sign: string; children: ComponentChildren }) {
  return (
    <div class="learn-with">
      {sign && <span class="learn-operator">{sign}</span>}
      {children}
    </div>
  );
}
