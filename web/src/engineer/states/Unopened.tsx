import { linkTo } from "../../shell/address";
import type { Source, SourceError } from "../../source/source";

const UNAUTHORISED = 401;
const NOT_FOUND = 404;

/** The page where not even the list of recordings could be had. */
export function Unopened({ source, error }: { source: Source; error: SourceError }) {
  if (error.status === UNAUTHORISED) return <WrongToken />;
  return (
    <main class="state" data-part="unopened">
      <h1>
        {error.isGone ? `The ${source.kind} does not answer` : "This recording cannot be opened"}
      </h1>
      <p>{error.message}</p>
      {error.status === NOT_FOUND && (
        <p>
          <a href={linkTo({})}>The first recording</a> is there.
        </p>
      )}
      {error.isGone && source.kind === "kernel" && <p>After a restart, run this cell again.</p>}
      {error.isGone && source.kind === "server" && (
        <p>
          Start it again with <code>regard view FILE</code>, and open the address that it prints.
        </p>
      )}
    </main>
  );
}

function WrongToken() {
  return (
    <main class="state" data-part="wrong-token">
      <h1>Open the address that the terminal printed</h1>
      <p>
        <code>regard view</code> prints an address that ends in <code>#token=…</code>. Only a
        browser with this token can read the recording; this page was opened without it, or with
        that of an earlier run.
      </p>
    </main>
  );
}
