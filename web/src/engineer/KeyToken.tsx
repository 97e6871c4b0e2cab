import type { ComponentChildren } from "preact";
import { linkTo } from "../shell/address";
import type { HeadFacts, HeadShort } from "../source/answers";
import type { Where } from "../source/source";
import { ownRowPlace } from "./places";

interface Props {
  readonly where: Where;
  readonly head: HeadShort | HeadFacts | undefined;
  /** The key's position. */
  readonly at: number;
  readonly children: ComponentChildren;
}

/** A key's token: a link to its own row where the head has one. */
export function KeyToken({ where, head, at, children }: Props) {
  const to = head ? ownRowPlace(where, head, at) : null;
  if (!to) return <>{children}</>;
  return (
    <a href={linkTo(to)} data-part="key-token" data-key={at}>
      {children}
    </a>
  );
}
