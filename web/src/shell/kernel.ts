import { effect } from "@preact/signals";
import { KernelLine, type KernelMessage } from "../source/kernel";
import type { Ask } from "../source/source";
import { amend, type Place, place } from "./address";
import { followTheme, type Theme } from "./theme";

// The page in a notebook's widget (src/widget): the widget sends a port once the page is loaded, and
// keeps the reader's place for when the notebook loads the frame anew.

interface First {
  readonly regard?: "kernel";
  readonly theme: Theme;
  readonly at: Place;
}

export function askKernel(): Ask {
  let opened: (port: MessagePort) => void;
  const line = new KernelLine(
    new Promise<MessagePort>((resolve) => {
      opened = resolve;
    }),
  );
  addEventListener("message", (event: MessageEvent<First>) => {
    const [port] = event.ports;
    if (event.source !== parent || event.data?.regard !== "kernel" || !port) return;
    port.onmessage = ({ data }: MessageEvent<KernelMessage & { readonly theme?: Theme }>) => {
      if (data.theme) followTheme(data.theme);
      else line.hear(data);
    };
    followTheme(event.data.theme);
    amend(event.data.at);
    effect(() => port.postMessage({ at: { ...place.value } }));
    opened(port);
  });
  return line.ask;
}
