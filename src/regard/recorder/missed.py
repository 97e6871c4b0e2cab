"""What ran and was not heard: attention modules of a model from which no attention came.

A module counts as attention where its class is called so, or where it was seen computing it by
other means. Modules around or inside one that was heard do not count by their name alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from torch import nn

from regard.recorder.intercept import is_hugging_face

_WORD = "Attention"
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def missed_modules(
    model: nn.Module, ran: Collection[str], heard: Collection[str], by_hand: Collection[str]
) -> dict[str, nn.Module]:
    """By path, outer ones instead of those inside them."""
    modules: dict[str, Any] = dict(model.named_modules())
    around = {outer for path in heard for outer in _outer(path)} | set(heard)
    found: dict[str, nn.Module] = {}
    for path, module in modules.items():  # outer modules come first
        named = _WORD in type(module).__name__ and path not in around
        # beside a heard one, inside the same attention: its dropout, its output
        named = named and not any(
            outer in around and _WORD in type(modules[outer]).__name__ for outer in _outer(path)
        )
        counts = path in ran and (named or path in by_hand)
        if counts and not any(outer in found for outer in _outer(path)):
            found[path] = module
    return found


def why_missed(model: nn.Module, missed: dict[str, nn.Module]) -> tuple[list[str], str]:
    """The modules in words, layers alike together; and a sentence for a warning."""
    groups: dict[str, int] = {}
    for path, module in missed.items():
        name = f"{_NUMBER.sub('*', path) or 'the model'} ({type(module).__name__})"
        groups[name] = groups.get(name, 0) + 1
    said = [name if count == 1 else f"{name}, {count} of them" for name, count in groups.items()]
    return said, "; ".join(
        [
            f"not recorded, although they ran: {', '.join(said)}",
            *_families(model, missed),
            "regard records what goes through regard.attend, transformers' attention interface "
            "or torch's scaled_dot_product_attention",
        ]
    )


def _families(model: nn.Module, missed: dict[str, nn.Module]) -> Iterator[str]:
    """Which families of transformers compute their attention by themselves."""
    modules: dict[str, Any] = dict(model.named_modules())
    kinds: dict[str, list[type[nn.Module]]] = {}
    for path, module in missed.items():
        for outer in (*_outer(path), path):
            family = getattr(getattr(modules[outer], "config", None), "model_type", None)
            if family is not None and is_hugging_face(modules[outer]):
                kinds.setdefault(str(family), []).append(type(module))
                break
    if kinds:
        from regard.huggingface.families import sight, unseen_because

        seen = {type(module) for module in sight(model).seen.values()}
        for family, own in kinds.items():
            if not seen.intersection(own):  # else it dispatches, and attends in another way too
                yield unseen_because(family, own)


def _outer(path: str) -> list[str]:
    """The modules around a path, the model itself first."""
    pieces = path.split(".") if path else []
    return [".".join(pieces[:count]) for count in range(len(pieces))]
