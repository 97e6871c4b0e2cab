"""Faults of a chosen size, planted in one module of a model: its class is replaced by one whose
forward gives rows that hold a share `size` of what they must not see.

A share is added to the rows that the module gives (`ahead`, `beside`, …), or cells of its mask are
opened: by −12 instead of −∞, or by blending both outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = [
    "Fault", "ahead", "beside", "beyond", "decoding", "first_row", "hidden_padding", "in_training",
    "later", "opened", "padding", "plant", "soft", "windowed",
]  # fmt: skip

Forward = Callable[..., Any]
Fault = Callable[..., Any]  # (forward, module, args, kwargs) → what the module returns
Cells = Callable[[Tensor], Tensor]  # the bool cells of a (B, 1, Q, K) mask of what is added


def plant(model: nn.Module, path: str, fault: Fault) -> Any:
    """The model, one of whose modules has the fault from now on."""
    module = model.get_submodule(path)
    kind = type(module)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return fault(lambda *a, **k: kind.forward(self, *a, **k), self, args, kwargs)

    module.__class__ = type(kind.__name__, (kind,), {"forward": forward})
    return model


def _added(share: Callable[[Tensor, Any, Any], Tensor]) -> Fault:
    """A fault that adds to the (B, L, D) rows a share of other ones."""

    def fault(forward: Forward, module: Any, args: Any, kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        rows = output[0] if isinstance(output, tuple) else output
        rows = rows + share(rows, args, kwargs)
        return (rows, *output[1:]) if isinstance(output, tuple) else rows

    return fault


def ahead(size: float) -> Fault:
    """Each row holds a share of the next one."""

    def share(rows: Tensor, args: Any, kwargs: Any) -> Tensor:
        later = rows.roll(-1, 1)
        later[:, -1] = 0
        return size * later

    return _added(share)


def beside(size: float) -> Fault:
    """Each sequence holds a share of the mean over all."""
    return _added(lambda rows, args, kwargs: size * rows.mean(0, keepdim=True))


def beside_at(place: str, size: float) -> Fault:
    """Each sequence holds a share of another one, by its place in the batch."""

    def share(rows: Tensor, args: Any, kwargs: Any) -> Tensor:
        n, many = torch.arange(len(rows)), len(rows)
        other = {
            "next but one": (n + 2) % many,
            "from the end": many - 1 - n,
            "other of two": torch.where((n ^ 2) < many, n ^ 2, n),
            "half away": (n + many // 2) % many,
        }[place]
        return size * rows[other]

    return _added(share)


def first_row(size: float) -> Fault:
    """Each row holds a share of the sequence's first, whatever lies between."""
    return _added(lambda rows, args, kwargs: size * rows[:, :1])


def padding(size: float) -> Fault:
    """Rows of tokens hold a share of the sum over padding, of what the module is given there: of
    positions that are masked for themselves, or hold nothing."""

    def share(rows: Tensor, args: Any, kwargs: Any) -> Tensor:
        mask, given = kwargs.get("attention_mask"), args[0] if args else kwargs["hidden_states"]
        real = given.any(-1) if not kwargs else None if mask is None else _real(mask)
        if real is None or real.shape != rows.shape[:2]:
            return torch.zeros_like(rows)
        hidden = given if kwargs else torch.ones_like(given)
        hidden = (hidden * ~real[..., None]).sum(1, keepdim=True)
        return size * hidden * real[..., None]

    return _added(share)


def decoding(size: float) -> Fault:
    """Rows hold a share of their own features in another order where a cache holds earlier ones."""

    def share(rows: Tensor, args: Any, kwargs: Any) -> Tensor:
        cache = kwargs.get("past_key_values")
        cache = getattr(cache, "self_attention_cache", cache)
        known = 0 if cache is None else cache.get_seq_length()
        return size * rows.roll(1, -1) if known > rows.shape[1] else torch.zeros_like(rows)

    return _added(share)


def in_training(fault: Fault) -> Fault:
    """The fault in training mode alone."""

    def only(forward: Forward, module: Any, args: Any, kwargs: Any) -> Any:
        return fault(forward, module, args, kwargs) if module.training else forward(*args, **kwargs)

    return only


def soft(cells: Cells) -> Fault:
    """Cells of the mask hold −12 instead of −∞."""

    def fault(forward: Forward, module: Any, args: Any, kwargs: Any) -> Any:
        return forward(*args, **_with_mask(args, kwargs, cells, -12.0))

    return fault


def opened(cells: Cells, size: float) -> Fault:
    """Cells of the mask are open, to a share."""

    def fault(forward: Forward, module: Any, args: Any, kwargs: Any) -> Any:
        right = forward(*args, **kwargs)
        if kwargs.get("past_key_values") is not None:
            return right  # a second call would append to the cache once more
        wrong = forward(*args, **_with_mask(args, kwargs, cells, 0.0))
        return (right[0] + size * (wrong[0] - right[0]), *right[1:])

    return fault


def windowed(width: int, is_two_sided: bool = False) -> Fault:
    """No fault: a window that the module itself applies, oneself counted."""

    def cells(mask: Tensor) -> Tensor:
        distance = _distance(mask)
        return (distance.abs() if is_two_sided else distance) >= width

    def fault(forward: Forward, module: Any, args: Any, kwargs: Any) -> Any:
        return forward(*args, **_with_mask(args, kwargs, cells, torch.finfo(torch.float32).min))

    return fault


def later(mask: Tensor) -> Tensor:
    """Cells of keys behind their query."""
    return (_distance(mask) < 0).expand(mask.shape)


def beyond(mask: Tensor) -> Tensor:
    """Cells of keys one further back than a window of seven; none of padding."""
    cells = _distance(mask) == 7
    return cells & _real(mask)[:, None, None] if mask.shape[2] == mask.shape[3] else cells


def hidden_padding(mask: Tensor) -> Tensor:
    """Cells of keys that are padding; none of a call on a cache."""
    if mask.shape[2] != mask.shape[3]:
        return torch.zeros_like(mask, dtype=torch.bool)
    return ~_real(mask)[:, None, None].expand(mask.shape)


def _distance(mask: Tensor) -> Tensor:
    """(Q, K) how far a key lies behind its query."""
    queries, keys = mask.shape[-2:]
    return (torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)).to(mask.device)


def _with_mask(args: Any, kwargs: Any, cells: Cells, value: float) -> dict[str, Any]:
    mask = kwargs["attention_mask"]
    if mask is None:  # encoders without padding are given none
        x = args[0] if args else kwargs["hidden_states"]
        mask = x.new_zeros(len(x), 1, x.shape[1], x.shape[1])
    return {**kwargs, "attention_mask": mask.masked_fill(cells(mask), value)}


def _real(mask: Tensor) -> Tensor:
    """(B, L) of a (B, 1, L, L) mask of what is added: positions that see themselves."""
    return mask[:, 0].diagonal(dim1=1, dim2=2) > -1
