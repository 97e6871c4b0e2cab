"""Normalisation: the two kinds that models use, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from torch import nn

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.nn.config import BlockConfig

NormKind: TypeAlias = Literal["rms", "layer"]

_KINDS: dict[str, type[nn.RMSNorm] | type[nn.LayerNorm]] = {
    "rms": nn.RMSNorm,  # x ÷ its root mean square
    "layer": nn.LayerNorm,  # the same after its mean is taken away, plus a learned shift
}


def make_norm(kind: NormKind, dim: int, eps: float) -> nn.Module:
    """A learned scale per dimension after x is brought to size 1."""
    if kind not in _KINDS:
        raise InputError(f"norm={kind!r}; give one of {', '.join(map(repr, _KINDS))}")
    return _KINDS[kind](dim, eps=eps)


def last_norm(config: BlockConfig) -> nn.Module:
    """After the last block: of a pre-norm stack, whose sum was never normalised."""
    if not config.norm_first:
        return nn.Identity()
    return make_norm(config.norm, config.dim, config.norm_eps)
