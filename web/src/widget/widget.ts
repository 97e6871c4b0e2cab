// What runs beside the notebook, as an anywidget module: it puts the page into a frame and carries
// messages between the frame and the kernel. The frame has an origin of its own, so the page can
// read neither the notebook nor its token; all that it can do is ask.

interface Model {
  get(name: string): unknown;
  send(content: object): void;
  on(event: "msg:custom", hear: Hear): void;
  on(event: "comm_live_update", run: () => void): void;
  off(event: string, run: (...given: never[]) => void): void;
}

type Hear = (message: Message, buffers: readonly DataView[]) => void;

/** From the kernel (src/regard/viewer/kernel.py); `id` is ours, of the view that asked. */
interface Message {
  readonly id: string;
  readonly status?: number;
}

interface Given {
  readonly model: Model;
  readonly el: HTMLElement;
}

// ids of questions that are not the page's
const PAGE = "page"; // for the page itself
const ALIVE = "alive"; // whether the kernel is still the one that was asked first
const OK = 200;

function render({ model, el }: Given): () => void {
  const view = Math.random().toString(36).slice(2); // a model may be shown several times
  let host: Host | undefined;
  const hear: Hear = (message, buffers) => {
    const [own, id] = message.id.split("/");
    if (own !== view || id === undefined) return;
    if (id === ALIVE) return host?.show(true);
    if (id !== PAGE) return host?.tell({ ...message, id, body: copied(buffers[0]) });
    if (message.status === undefined) return;
    const text = new TextDecoder().decode(buffers[0]);
    if (message.status === OK) host = new Host(text, model, view);
    el.replaceChildren(host?.frame ?? text);
  };
  // A kernel that was restarted knows nothing of this widget and does not answer.
  const look = () => {
    host?.show(false);
    send(model, { id: `${view}/${ALIVE}`, address: "/api/recordings" });
  };
  model.on("comm_live_update", look);
  model.on("msg:custom", hear);
  send(model, { id: `${view}/${PAGE}`, address: "/" });
  return () => {
    model.off("comm_live_update", look);
    model.off("msg:custom", hear);
    host?.close();
  };
}

/** The frame, and the line to it. */
class Host {
  readonly frame = document.createElement("iframe");
  readonly #themes: MutationObserver;
  #port: MessagePort | undefined;
  #at: object = {};

  constructor(page: string, model: Model, view: string) {
    const { frame } = this;
    this.show(true);
    frame.title = String(model.get("title"));
    frame.setAttribute("sandbox", "allow-scripts allow-forms allow-downloads");
    frame.style.cssText = `display: block; width: 100%; height: ${model.get("height")}px; border: 0`;
    frame.srcdoc = page;
    // A notebook that takes an output off the screen and puts it back loads its frame anew.
    frame.addEventListener("load", () => this.#connect(model, view));
    this.#themes = new MutationObserver(() => this.tell({ theme: themeOf(frame) }));
    this.#themes.observe(document.body, { attributes: true });
  }

  /** Whether the notebook shows it, or words and a picture instead (src/regard/viewer/live.py). */
  show(isLive: boolean): void {
    this.frame.classList.toggle("regard-live", isLive);
  }

  tell(message: object): void {
    this.#port?.postMessage(message);
  }

  close(): void {
    this.#themes.disconnect();
    this.#port?.close();
  }

  #connect(model: Model, view: string): void {
    const { port1, port2 } = new MessageChannel();
    this.#port?.close();
    this.#port = port1;
    port1.onmessage = ({ data }) => {
      if (data.at) this.#at = data.at;
      else send(model, { ...data, id: `${view}/${data.id}` });
    };
    const first = { regard: "kernel", theme: themeOf(this.frame), at: this.#at };
    this.frame.contentWindow?.postMessage(first, "*", [port2]); // its origin has no name
  }
}

/** Where the line to the kernel is closed nothing is sent, and whoever asked waits in vain. */
function send(model: Model, message: object): void {
  try {
    model.send(message);
  } catch (error) {
    console.warn("regard: the kernel cannot be asked", error);
  }
}

/** The buffer's own bytes: it may be a part of a larger message. */
function copied(buffer: DataView | undefined): ArrayBuffer | undefined {
  return buffer?.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength) as
    | ArrayBuffer
    | undefined;
}

/** By the first ground behind the element that has a colour: notebooks have themes of their own. */
function themeOf(element: Element): "light" | "dark" {
  for (let at: Element | null = element.parentElement; at; at = at.parentElement) {
    const ground = getComputedStyle(at).backgroundColor;
    const [red = 0, green = 0, blue = 0, alpha = 1] = (ground.match(/[\d.]+/g) ?? []).map(Number);
    if (alpha > 0.5) return 0.299 * red + 0.587 * green + 0.114 * blue < 128 ? "dark" : "light";
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export default { render };
