import { figure } from "../maths/format";

interface Props {
  readonly value: number;
  /** Decimals; what its neighbours have where several stand together. */
  readonly places?: number;
  readonly class?: string;
}

/** A number as text, with every digit of it in `data-value` and on hover. */
export function Figure({ value, places, class: name }: Props) {
  const text = figure(value, places);
  return (
    <span class={`figure ${name ?? ""}`} data-value={String(value)} title={String(value)}>
      {text}
    </span>
  );
}
