import { Component, type ComponentChildren } from "preact";

interface Props {
  /** A new name clears the mistake: the reader has gone elsewhere. */
  readonly name: string;
  readonly children: ComponentChildren;
}

interface State {
  readonly mistake: string | null;
  readonly name: string;
}

/** A mistake of this page stays where it is made, and is said in one sentence. */
export class Boundary extends Component<Props, State> {
  constructor(props: Props) {
    super(props);
    this.state = { mistake: null, name: props.name };
  }

  static override getDerivedStateFromProps(props: Props, state: State): Partial<State> | null {
    return props.name === state.name ? null : { mistake: null, name: props.name };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ mistake: error instanceof Error ? error.message : String(error) });
  }

  override render() {
    if (this.state.mistake === null) return this.props.children;
    return (
      <main class="state" data-part="mistake">
        <h1>Something is wrong with this page</h1>
        <p>
          This view could not be drawn: <code>{this.state.mistake}</code>. The recording itself is
          not touched. Reload the page, or go back.
        </p>
        <p>
          <button type="button" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      </main>
    );
  }
}
