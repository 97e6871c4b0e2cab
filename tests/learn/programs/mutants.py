"""Every mistake written into every implementation it fits."""

from __future__ import annotations

from collections.abc import Iterator

from learn.programs.bases import BASES


def mutants(base: str) -> Iterator[tuple[str, str, set[str]]]:
    """(name, source, the kinds that name it rightly)."""
    source, changes = BASES[base]
    for at, (old, new, kinds) in enumerate(changes):
        assert old in source, (base, old)
        yield f"{base}-{at}", source.replace(old, new), set(kinds.split("|"))
