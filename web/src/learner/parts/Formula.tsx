import type { ComponentChildren } from "preact";
import "./formula.css";

// Formulas in the browser's own MathML; each symbol in the colour of its role.

type Inside = { readonly children?: ComponentChildren };

export function Formula({ children }: Inside) {
  return (
    <div class="learn-formula scroll" data-part="formula">
      <math display="block">{children}</math>
    </div>
  );
}

export const Q = () => <mi class="q">Q</mi>;
export const K = () => <mi class="k">K</mi>;
export const V = () => <mi class="v">V</mi>;
export const X = () => <mi>X</mi>;

export const Equals = () => <mo>=</mo>;
export const Plus = () => <mo>+</mo>;

/** W with its letter below, in its colour. */
export function W({ of, tone }: { of: string; tone?: string }) {
  return (
    <msub class={tone ?? ""}>
      <mi>W</mi>
      <mi>{of}</mi>
    </msub>
  );
}

export function Transposed({ children }: Inside) {
  return (
    <msup>
      {children}
      <mi mathvariant="normal">T</mi>
    </msup>
  );
}

export function RootOfWidth() {
  return (
    <msqrt>
      <msub>
        <mi>d</mi>
        <mi>k</mi>
      </msub>
    </msqrt>
  );
}

/** A function's name, upright. */
export function Name({ children }: Inside) {
  return <mtext>{children}</mtext>;
}

/** Round brackets of a function's argument, as tall as the line: text, since operators
 * are stretched. */
export function Argument({ children }: Inside) {
  return (
    <>
      <mtext>(</mtext>
      {children}
      <mtext>)</mtext>
    </>
  );
}

/** Round brackets that grow with what they hold. */
export function Bracketed({ children }: Inside) {
  return (
    <mrow>
      <mo stretchy>(</mo>
      {children}
      <mo stretchy>)</mo>
    </mrow>
  );
}

export function Comma() {
  return (
    <>
      <mo separator>,</mo>
      <mspace width="1em" />
    </>
  );
}
