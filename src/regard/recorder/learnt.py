"""Positions that a model has learnt instead of reading them: the object queries of a detector, the
queries by which a resampler sums a picture up. They may be as many as a grid has patches by chance,
and are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from torch import nn

# what configurations call their number
_SAID: Final = ("num_queries", "num_query_tokens", "num_latents", "resampler_n_latents")
_PARTS: Final = ("decoder_config", "perceiver_config", "qformer_config")


@dataclass
class LearntQueries:
    """Those of a model, by the path of what holds them."""

    model: nn.Module

    @cached_property
    def _held(self) -> list[tuple[str, int]]:
        """Parameters (…, n, width) of their own and embeddings that are called queries."""
        found = [
            (path, one.shape[-2])
            for path, one in self.model.named_parameters()
            if one.ndim > 1 and _is_called_so(path.rpartition(".")[2])
        ]
        found += [
            (path, one.num_embeddings)
            for path, one in self.model.named_modules()
            if isinstance(one, nn.Embedding) and _is_called_so(path.rpartition(".")[2])
        ]
        return [(path, count) for path, count in found if count > 1]

    @cached_property
    def _counts(self) -> set[int]:
        return {count for _, count in self._held} | set(self._said())

    def _said(self) -> Iterator[int]:
        config: Any = getattr(self.model, "config", None)
        for one in (config, *(getattr(config, name, None) for name in _PARTS)):
            for name in _SAID:
                if isinstance(count := getattr(one, name, None), int):
                    yield count

    @property
    def sum_up(self) -> bool:
        """Whether what the model holds of a picture, where a text has it, may be such queries."""
        return bool(self._held)

    def may_be(self, path: str, count: int, picture: str) -> bool:
        """Whether `count` positions of the module `path` may be such queries instead of patches,
        which the convolution `picture` makes."""
        if count not in self._counts:
            return False
        if any("decoder" in name for name in path.split(".")):
            return True
        held = max((_common(path, one) for one, n in self._held if n == count), default=0)
        seen = _common(path, picture)
        return held > seen or (held == seen and not self._encodes(path))

    def _encodes(self, path: str) -> bool:
        """Whether a module is in the encoder of a model that has a decoder beside it."""
        outer, found, _ = path.partition("encoder.")
        names = {name for name, _ in self.model.named_modules()}
        return bool(found) and f"{outer}decoder" in names


def _is_called_so(name: str) -> bool:
    return "quer" in name or "latent" in name


def _common(a: str, b: str) -> int:
    """How many names two paths begin with alike."""
    alike = [x == y for x, y in zip(a.split("."), b.split("."), strict=False)]
    return alike.index(False) if False in alike else len(alike)
