import { styled } from "../head/styled";
import type { Tints } from "./svg";

/** What of a view can be taken along. */
export interface SharedPicture {
  /** Of the files: "L17H3-row-671". */
  readonly name: string;
  /** The head that a self-contained page would hold; none where there is no such page. */
  readonly head?: string;
  readonly svg: () => Promise<string>;
  /** The numbers in view, and where they come from. */
  readonly numbers: () => Promise<unknown>;
}

/** The style sheet's colours and types, as they are now. */
export function tintsNow(): Tints {
  return {
    paper: styled("--paper"),
    ink: styled("--ink"),
    soft: styled("--soft"),
    sans: styled("--text"),
    mono: styled("--mono"),
  };
}

/** JSON in which what is no number is null, as in the server's answers. */
export function numbersAsText(numbers: unknown): string {
  return JSON.stringify(numbers, (_, value: unknown) =>
    typeof value === "number" && !Number.isFinite(value) ? null : value,
  );
}
