import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { save } from "../../shell/save";
import { type Source, SourceError, type Where } from "../../source/source";
import { linkNow } from "./origin";
import { numbersAsText, type SharedPicture } from "./picture";
import { pngOf } from "./pixels";
import "./share.css";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly title: string;
  readonly picture: SharedPicture;
}

/** Take a view along: as a link, a picture, numbers, or one page that needs no server. */
export function ShareMenu({ source, where, title, picture }: Props) {
  const isOpen = useSignal(false);
  const said = useSignal("");
  const box = useRef<HTMLDivElement>(null);
  useClosing(box, isOpen);
  return (
    <div class="share" ref={box}>
      <button
        type="button"
        data-part="share"
        aria-expanded={isOpen.value}
        onClick={() => {
          isOpen.value = !isOpen.value;
          said.value = "";
        }}
      >
        Share
      </button>
      {isOpen.value && (
        <fieldset class="share-list" aria-label={`Share ${title}`}>
          {choices(source, where, picture).map((one) => (
            <button
              key={one.name}
              type="button"
              class="quiet"
              data-part={`share-${one.name}`}
              onClick={() => said.value === "…" || take(one, said)}
            >
              {one.words} <span class="soft">{one.note}</span>
            </button>
          ))}
          <p role="status" data-part="share-said">
            {said.value}
          </p>
        </fieldset>
      )}
    </div>
  );
}

interface Choice {
  readonly name: string;
  readonly words: string;
  readonly note: string;
  /** Does it, and says what was done. */
  readonly take: () => Promise<string>;
}

function choices(source: Source, where: Where, picture: SharedPicture): Choice[] {
  const { name, head } = picture;
  const opens = source.kind === "server" ? "opens where this server runs" : "opens this file";
  const saved = async (file: string, content: Promise<Blob>) => {
    save(file, await content);
    return `Saved ${file}.`;
  };
  const svgBlob = async () => new Blob([await picture.svg()], { type: "image/svg+xml" });
  const jsonBlob = async () =>
    new Blob([numbersAsText(await picture.numbers())], { type: "application/json" });
  const link = { name: "link", words: "Copy link", note: opens, take: () => copyLink(source) };
  const list: Choice[] = [
    ...(source.kind === "kernel" ? [] : [link]), // a widget has no address
    {
      ...{ name: "png", words: "PNG", note: "picture, twice as sharp" },
      take: () => saved(`${name}.png`, picture.svg().then(pngOf)),
    },
    {
      ...{ name: "svg", words: "SVG", note: "axes and text as vectors" },
      take: () => saved(`${name}.svg`, svgBlob()),
    },
    {
      ...{ name: "json", words: "JSON", note: "the numbers in view" },
      take: () => saved(`${name}.json`, jsonBlob()),
    },
  ];
  if (head === undefined) return list;
  const page = () => saved(`${head}.html`, source.page(where, head));
  return [...list, { name: "page", words: "HTML", note: "one page, no server", take: page }];
}

async function copyLink(source: Source): Promise<string> {
  const link = linkNow();
  try {
    await navigator.clipboard.writeText(link);
    return source.kind === "server" ? "Copied. The server's token is not in it." : "Copied.";
  } catch {
    return link; // the clipboard is closed to this page: to be copied by hand
  }
}

async function take(choice: Choice, said: Signal<string>): Promise<void> {
  said.value = "…";
  try {
    said.value = await choice.take();
  } catch (error) {
    said.value = error instanceof Error ? error.message : String(error);
    if (!(error instanceof SourceError)) throw error;
  }
}

/** Close on Escape and on a press elsewhere. */
function useClosing(box: { current: HTMLElement | null }, isOpen: Signal<boolean>): void {
  useEffect(() => {
    if (!isOpen.value) return;
    const control = new AbortController();
    const { signal } = control;
    const away = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) isOpen.value = false;
    };
    addEventListener("pointerdown", away, { signal });
    addEventListener(
      "keydown",
      (event) => {
        if (event.key !== "Escape") return;
        box.current?.querySelector("button")?.focus();
        isOpen.value = false;
      },
      { signal },
    );
    return () => control.abort();
  }, [isOpen.value]);
}
