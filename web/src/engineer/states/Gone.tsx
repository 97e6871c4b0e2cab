import type { Source } from "../../source/source";
import { isGone, lookForServer } from "./connection";

/** The banner while nobody answers; the page keeps what it has. */
export function Gone({ source }: { source: Source }) {
  if (!isGone.value) return null;
  return (
    <div class="gone" role="alert" data-part="server-gone">
      <span>
        {source.kind === "kernel" ? (
          <>
            <strong>The kernel does not answer.</strong> It is running a cell, or it was restarted:
            then run this cell again. This page keeps its contents and retries.
          </>
        ) : (
          <>
            <strong>The server does not answer.</strong> Was <code>regard view</code> stopped? This
            page keeps its contents and retries every few seconds.
          </>
        )}
      </span>
      <button type="button" onClick={() => lookForServer(source)}>
        Try now
      </button>
    </div>
  );
}
