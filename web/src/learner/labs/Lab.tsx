import type { ComponentChildren } from "preact";
import "./labs.css";
import "./pictures.css";

interface Props {
  readonly part: string;
  readonly title: string;
  readonly children: ComponentChildren;
}

/** One laboratory: a titled box in which something can be tried. */
export function Lab({ part, title, children }: Props) {
  return (
    <section class="lab" data-part={part} aria-label={title}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

interface ChoiceProps<T> {
  readonly part: string;
  readonly words: string;
  readonly options: readonly { readonly value: T; readonly text: string }[];
  readonly chosen: T | undefined;
  readonly choose: (value: T) => void;
}

/** One of a few, as buttons. */
export function Choice<T extends string | number>(props: ChoiceProps<T>) {
  return (
    <fieldset class="lab-choice" data-part={props.part}>
      <legend>{props.words}</legend>
      {props.options.map(({ value, text }) => (
        <button
          key={value}
          type="button"
          data-choice={String(value)}
          aria-pressed={value === props.chosen}
          onClick={() => props.choose(value)}
        >
          {text}
        </button>
      ))}
    </fieldset>
  );
}
