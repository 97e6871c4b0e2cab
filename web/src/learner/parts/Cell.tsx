import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { figure } from "../../maths/format";
import { type Phrase, say } from "../language";
import { nudged, readNumber } from "./number";

export interface CellProps {
  readonly matrix: string;
  readonly row: number;
  readonly column: number;
  readonly label: string;
  readonly value: number;
  readonly places: number;
  readonly isChanged: boolean;
  readonly isTabStop: boolean;
  /** Shown as a column of the page, though it is a row of its matrix. */
  readonly isTurned?: boolean;
  readonly put: (value: number | undefined) => void;
  /** Says what is wrong with the text in it; null takes it back. */
  readonly complain: (why: Phrase | null) => void;
  readonly reached: () => void;
}

type Move = readonly [down: number, right: number];

const MOVES: Readonly<Record<string, Move>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

function moveFrom(input: HTMLInputElement, [down, right]: Move): void {
  const row = Number(input.dataset.row) + down;
  const column = Number(input.dataset.column) + right;
  const place = `[data-row="${row}"][data-column="${column}"]`;
  const wanted = `input[data-matrix="${input.dataset.matrix}"]${place}`;
  input.closest("table")?.querySelector<HTMLInputElement>(wanted)?.focus();
}

/** What is typed stays a draft until it is committed; a draft that is no number stays one. */
function useDraft({ put, complain }: Pick<CellProps, "put" | "complain">) {
  const draft = useSignal<string | null>(null);
  const restore = () => {
    draft.value = null;
    complain(null);
  };
  const commit = (): boolean => {
    if (draft.value === null) return true;
    const read = readNumber(draft.value);
    if (read.is === "wrong") {
      complain(read.why);
      return false;
    }
    put(read.is === "number" ? read.value : undefined);
    restore();
    return true;
  };
  return { draft, restore, commit };
}

/** A number that can be changed: it looks like text until it is reached. */
export function Cell(props: CellProps) {
  const { draft, restore, commit } = useDraft(props);
  const cell = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    // A number that has just changed under the caret is replaced, not continued, by typing.
    if (cell.current === document.activeElement && draft.peek() === null) cell.current?.select();
  }, [props.value]);
  const onKeyDown = (event: KeyboardEvent) => {
    const input = event.currentTarget as HTMLInputElement;
    const move = MOVES[event.key];
    if (event.key === "Enter") {
      if (commit()) input.select();
    } else if (event.key === "Escape") {
      if (draft.value === null) input.blur();
      restore();
    } else if (move && event.altKey && move[0] !== 0) {
      restore();
      props.put(nudged(props.value, move[0] < 0 ? 1 : -1));
    } else if (move && (draft.value === null || move[0] !== 0)) {
      if (commit()) moveFrom(input, props.isTurned ? [move[1], move[0]] : move);
    } else return;
    event.preventDefault();
  };
  return (
    <input
      ref={cell}
      class="learn-cell figure"
      type="text"
      inputMode="decimal"
      autocomplete="off"
      spellcheck={false}
      data-part="cell"
      data-matrix={props.matrix}
      data-row={props.row}
      data-column={props.column}
      data-value={String(props.value)}
      title={String(props.value)}
      aria-label={props.isChanged ? say("cell.changed", { label: props.label }) : props.label}
      aria-invalid={draft.value !== null && readNumber(draft.value).is === "wrong"}
      tabIndex={props.isTabStop ? 0 : -1}
      value={draft.value ?? figure(props.value, props.places)}
      onInput={(event) => {
        draft.value = event.currentTarget.value;
      }}
      onFocus={(event) => {
        event.currentTarget.select();
        props.reached();
      }}
      onBlur={commit}
      onKeyDown={onKeyDown}
    />
  );
}

/** The dot of a number changed by hand, which puts the computed one back. */
export function PutBack({ reset }: { reset: () => void }) {
  return (
    <button
      type="button"
      class="learn-dot"
      data-part="reset-cell"
      title={say("cell.put_back_title")}
      onClick={reset}
    >
      <span class="unseen">{say("cell.put_back")}</span>
    </button>
  );
}
