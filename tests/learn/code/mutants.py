"""Every mistake written into every implementation it fits."""

from __future__ import annotations

from collections.abc import Iterator

from learn.code.bases import BASES


def mutants() -> Iterator[tuple[str, str, set[str]]]:
    """(name, source, the kinds that name it rightly)."""
    for base, (source, changes) in BASES.items():
        for at, (old, new, kinds) in enumerate(changes):
            assert old in source, (base, old)
            mutant = source.replace(old, new)
            if "|k0 = k" in new:
                mutant = source.replace(old, new.partition("|")[0]).replace(
                    "        q = self.split(self.W_q(q))", "        k0 = k\n        q = self.split(self.W_q(q))"
                )
            yield f"{base}-{at}", mutant, set(kinds.split("|"))
