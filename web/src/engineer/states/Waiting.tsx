import type { SourceError } from "../../source/source";

/** Something is on its way: what, in words. */
export function Waiting({ words }: { words: string }) {
  return (
    <p class="waiting" role="status" data-part="waiting">
      <span class="waiting-dot" aria-hidden="true" />
      {words}
    </p>
  );
}

/** Why there is no answer. A server that is gone has its banner already. */
export function Failed({ error }: { error: SourceError }) {
  const words = error.isGone ? "Not here yet: the server does not answer." : error.message;
  return (
    <p class="notice error" role="alert" data-part="failed">
      {words}
    </p>
  );
}
