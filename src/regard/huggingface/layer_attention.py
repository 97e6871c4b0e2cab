"""What a layer of transformers hands out beside its output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch.utils._pytree import tree_map_only

from regard.engine.attention import Attention


class LayerAttention(Attention):
    """An Attention that stands where models expect eager's tensor: torch's functions are given the
    full matrix, as in `torch.stack(outputs.attentions)`, which ESM does itself."""

    @classmethod
    def of(cls, attention: Attention) -> LayerAttention:
        """The same attention; nothing is copied."""
        made = cls.__new__(cls)
        made.__dict__.update(attention.__dict__)
        return made

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = tree_map_only(cls, lambda one: one.dense(), (args, kwargs or {}))
        return function(*given[0], **given[1])


LayerAttention.__name__ = Attention.__name__  # what users meet, print and ask the type of
