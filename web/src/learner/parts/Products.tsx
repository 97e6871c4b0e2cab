import type { ComponentChildren } from "preact";
import { placesOf } from "../../maths/format";
import type { Vector } from "../../maths/matrix";
import { Figure } from "../../parts/Figure";
import { say } from "../language";
import { spellProducts, type Term } from "./spelling";

interface Factor {
  readonly values: Vector;
  /** Class of its colour. */
  readonly tone: string;
}

/** A negative number inside a product stands in brackets. */
function Factored({ value, tone, places }: { value: number; tone: string; places: number }) {
  const number = <Figure value={value} places={places} class={tone} />;
  return value < 0 ? <>({number})</> : number;
}

/** a₁·b₁ + a₂·b₂ + … , each factor in its colour. */
export function Products({ left, right }: { left: Factor; right: Factor }) {
  const { first, between, last } = spellProducts(left.values, right.values);
  const [a, b] = [placesOf(left.values), placesOf(right.values)];
  const product = (term: Term, n: number, follows: boolean) => (
    <span key={n} class="learn-term">
      {follows && " + "}
      <Factored value={term.left} tone={left.tone} places={a} />·
      <Factored value={term.right} tone={right.tone} places={b} />
    </span>
  );
  return (
    <>
      {first.map((term, n) => product(term, n, n > 0))}
      {between > 0 && <span class="soft"> + {say("count.further", { count: between })}</span>}
      {last.map((term) => product(term, -1, true))}
    </>
  );
}

/** The line under a product that says where one number of it comes from. */
export function Explanation({ children }: { children: ComponentChildren }) {
  return (
    <p class="learn-explanation figure" data-part="explanation" aria-live="polite">
      {children}
    </p>
  );
}
