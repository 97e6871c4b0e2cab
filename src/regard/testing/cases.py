"""One matrix of cases for every implementation: shapes, masks, score rules, ugly sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.mask import Causal, Documents, Mask, Packed, Padding, Prefix, Rule, Window
from regard.score import ALiBi, Bias, RelativeBias


@dataclass(frozen=True)
class Inputs:
    """Tensors and keyword arguments for `regard.attend`."""

    query: Tensor
    key: Tensor
    value: Tensor
    options: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A problem without its numbers."""

    name: str
    batch: tuple[int, ...] = (2,)
    heads: int = 4
    key_heads: int = 2
    queries: int = 70
    keys: int = 130
    dim: int = 16
    value_dim: int = 16
    mask: Callable[[Case], Mask | Tensor] | None = None
    options: Callable[[Case, torch.Generator, torch.dtype], dict[str, Any]] | None = None
    spread: float = 1.0  # standard deviation of the scores

    def inputs(
        self, dtype: torch.dtype = torch.float32, seed: int = 0, device: str = "cpu"
    ) -> Inputs:
        """Fresh random numbers; the same seed gives the same numbers in every dtype."""
        dice = torch.Generator().manual_seed(seed)

        def draw(heads: int, tokens: int, dim: int) -> Tensor:
            made = torch.randn(*self.batch, heads, tokens, dim, generator=dice, dtype=torch.float64)
            return made.to(device, dtype)

        # float16 ends at 65,504
        spread = min(self.spread, 1000.0) if dtype == torch.float16 else self.spread
        query = (draw(self.heads, self.queries, self.dim).double() * spread).to(dtype)
        key = draw(self.key_heads, self.keys, self.dim)
        value = draw(self.key_heads, self.keys, self.value_dim)
        made: dict[str, Any] = {} if self.options is None else self.options(self, dice, dtype)
        if self.mask is not None:
            made["mask"] = self.mask(self)
        return Inputs(query, key, value, {n: _to(device, x) for n, x in made.items()})


def _to(device: str, given: Any) -> Any:
    if isinstance(given, Mask | Bias):
        return given.map(lambda array: _to(device, array))
    return given.to(device) if isinstance(given, Tensor) else given


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _bias_table(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    table = torch.randn(case.heads, case.queries, case.keys, generator=dice)
    return {"bias": table.masked_fill(table > 1.5, -torch.inf).to(dtype)}


def _alibi(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    return {"bias": ALiBi(torch.rand(case.heads, generator=dice).to(_exact(dtype)))}


def _relative(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    return {"bias": RelativeBias(torch.randn(32, case.heads, generator=dice).to(_exact(dtype)))}


def _sink(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    return {"sink": torch.randn(case.heads, generator=dice).to(_exact(dtype)) * 3}


def _everything(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    return {"softcap": 5.0, "scale": 0.7, **_alibi(case, dice, dtype), **_sink(case, dice, dtype)}


def _lengths(case: Case) -> Mask:
    """The first entry is nearly empty, so that some rows see little or nothing."""
    return Padding([3] + [case.keys] * (case.batch[0] - 1))


def _documents(case: Case) -> Mask:
    ids = torch.arange(case.keys) // 37
    return Causal() & Documents(ids[-case.queries :], ids)


def _packed(case: Case) -> Mask:
    """Sequences without queries, without keys, and two that begin at different places of both."""
    queries = torch.tensor([0, 0, 1, case.queries // 2, case.queries])
    keys = torch.tensor([0, 3, 3, case.keys // 3, case.keys])
    return Packed(queries, keys, Causal() & Window(25))


def _packed_together(case: Case) -> Mask:
    return Packed(torch.tensor([0, 1, case.keys // 3, case.keys]), None, Causal())


def _table(case: Case) -> Tensor:
    dice = torch.Generator().manual_seed(1)
    return torch.rand(case.batch[0], 1, case.queries, case.keys, generator=dice) > 0.3


def _flags(case: Case) -> Mask:
    """Scattered padding of keys and queries: no interval describes it."""
    keys = torch.arange(case.keys) % 3 != 1
    return Padding(keys.expand(case.batch[0], -1), [case.queries // 2] * case.batch[0])


_SQUARE: dict[str, Any] = {"queries": 130}
CASES: tuple[Case, ...] = (
    Case("plain"),
    Case("square causal", mask=lambda _: Causal(), **_SQUARE),
    Case("causal at the end", mask=lambda _: Causal()),
    Case("causal at the start", mask=lambda _: Causal("start")),
    Case("more queries than keys", queries=130, keys=70, mask=lambda _: Causal()),
    Case("window", mask=lambda _: Window(20)),
    Case("window both sides", mask=lambda _: Window(5, 9), **_SQUARE),
    Case("lengths", mask=_lengths),
    Case("scattered padding", mask=_flags),
    Case("documents", mask=_documents),
    Case("packed", mask=_packed),
    Case("packed together", mask=_packed_together, **_SQUARE),
    Case("prefix", mask=lambda _: Causal() | Prefix(9)),
    Case("not a window", mask=lambda _: ~Window(30)),
    Case("rule", mask=lambda _: Rule(lambda i, j: (i + 2 * j) % 5 != 0)),
    Case("rule of heads", mask=lambda _: Rule(lambda b, h, i, j: (i + j + h + b) % 3 != 0)),
    Case("boolean table", mask=_table),
    Case("bias table", options=_bias_table),
    Case("alibi", options=_alibi, mask=lambda _: Causal()),
    Case("relative bias", options=_relative),
    Case("soft cap", options=lambda *_: {"softcap": 2.0}, spread=4.0),
    Case("sink", options=_sink, mask=_lengths),
    Case("cap, alibi, sink, causal", options=_everything, mask=lambda _: Causal()),
    Case("one key head", key_heads=1),
    Case("a head each", key_heads=4),
    Case("wide values", value_dim=40),
    Case("narrow values", value_dim=3),
    Case("head dim 5", dim=5, value_dim=5),
    Case("head dim 64", dim=64, value_dim=64, queries=65, keys=300),
    Case("head dim 128", dim=128, value_dim=128, queries=33, keys=65),
    Case("one query", queries=1, mask=lambda _: Causal()),
    Case("one key", keys=1),
    Case("one of each", queries=1, keys=1),
    Case("two tokens", queries=2, keys=2, mask=lambda _: Causal()),
    Case("no queries", queries=0),
    Case("no keys", keys=0),
    Case("no batch", batch=()),
    Case("two batch axes", batch=(2, 3), queries=20, keys=30, mask=lambda _: Causal()),
    Case("63 tokens", queries=63, keys=63, mask=lambda _: Causal()),
    Case("123 tokens", queries=123, keys=123),
    Case("1000 tokens", batch=(1,), heads=2, key_heads=1, queries=1000, keys=1000,
         mask=lambda _: Causal()),
    Case("large scores", spread=60.0),
    Case("saturated", spread=30000.0, mask=lambda _: Causal(), **_SQUARE),
    Case("flat", spread=1e-4),
)  # fmt: skip
