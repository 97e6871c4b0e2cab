import { useSignal } from "@preact/signals";
import { go, place } from "../shell/address";
import { HelpButton } from "../shell/Help";
import { save } from "../shell/save";
import { switchTheme, theme } from "../shell/theme";
import { SourceError } from "../source/source";
import type { About } from "./api";
import { type Chosen, cuts, fromOf, labelOf, off, restore } from "./place";
import type { Readings } from "./store";

interface Props {
  readonly about: About;
  readonly readings: Readings;
  readonly at: Chosen | null;
  readonly onTour: () => void;
}

/** Which model this is, and what can be done with what is on the screen. */
export function Header({ about, readings, at, onTour }: Props) {
  const shown = readings.shown.value;
  const failed = useSignal("");
  const run = (work: () => Promise<void>) => () => {
    failed.value = "";
    work().catch((error: unknown) => {
      if (!(error instanceof SourceError)) throw error;
      failed.value = error.message;
    });
  };
  const file = run(async () => {
    if (!shown) return;
    save(`${about.model}.regard`, await readings.server.file(shown.reading.id));
  });
  const page = run(async () => {
    if (!shown) return;
    const number = await readings.server.open(shown.reading.id);
    save(`${about.model}.html`, await readings.server.page(number, ""));
  });
  const open = run(async () => {
    if (!shown) return;
    const first = { stack: shown.reading.stacks[0]?.name ?? "", layer: 0, head: 0 };
    const from = fromOf(place.peek());
    const rec = String(await readings.server.open(shown.reading.id));
    go({ view: "head", rec, prompt: "0", head: labelOf(at ?? first), from });
  });
  const other = theme.value === "dark" ? "light" : "dark";
  const isChanged = off.value.length > 0 || cuts.value.length > 0;
  return (
    <header class="play-header">
      <div class="play-who">
        <strong>regard play</strong>
        <span class="soft" data-part="model">
          {about.model}
        </span>
      </div>
      <div class="play-tools">
        {isChanged && (
          <button type="button" data-part="restore" onClick={restore}>
            Restore all
          </button>
        )}
        {about.kind === "text" && <CompareButton />}
        <button type="button" disabled={!shown} data-part="open" onClick={open}>
          Open in the engineer's room
        </button>
        <button
          type="button"
          disabled={!shown}
          data-part="save"
          title="A .regard file"
          onClick={file}
        >
          Save
        </button>
        <button
          type="button"
          disabled={!shown}
          data-part="share"
          title="One HTML file"
          onClick={page}
        >
          Share
        </button>
        {about.kind === "text" && (
          <button type="button" data-part="tour" onClick={onTour}>
            Tour
          </button>
        )}
        <button type="button" class="quiet" title={`${other} (d)`} onClick={switchTheme}>
          <span aria-hidden="true">{theme.value === "dark" ? "☀" : "☾"}</span>
          <span class="unseen">Switch to {other}</span>
        </button>
        <HelpButton />
      </div>
      {failed.value && (
        <p class="notice error" role="alert">
          {failed.value}
        </p>
      )}
    </header>
  );
}

function CompareButton() {
  const { compare, b } = place.value;
  const isOn = compare !== undefined || Boolean(b);
  return (
    <button
      type="button"
      aria-pressed={isOn}
      data-part="compare"
      onClick={() => {
        const { compare: _, b: __, ...rest } = place.value;
        go(isOn ? rest : { ...rest, compare: "1" });
      }}
    >
      Compare
    </button>
  );
}
