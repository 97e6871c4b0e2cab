"""regard.scaled_dot_product_attention is torch's function, argument for argument; and dropout."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import regard
from engine.conftest import qkv

ours, theirs = regard.scaled_dot_product_attention, F.scaled_dot_product_attention
NEAR = {"rtol": 1e-10, "atol": 1e-10}


@dataclass
class Given:
    """Arguments of one call."""

    tensors: list[Tensor]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def leaves(self) -> list[Tensor]:
        mask = self.options.get("attn_mask")
        learned = [] if mask is None or mask.dtype == torch.bool else [mask]
        return [*self.tensors, *learned]

    def run(self, function: Any) -> Tensor:
        return function(*self.tensors, **self.options)


def _numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


@st.composite
def broadcast(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that spreads to this one: leading axes gone, others of size one."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(draw(st.sampled_from([1, n])) for n in kept)


@st.composite
def masks(draw: st.DrawFn, full: tuple[int, ...]) -> Tensor:
    """Booleans or additive numbers that spread to (…, heads, L, S), some rows all hidden."""
    shape = draw(broadcast(full))
    shape = shape if len(shape) >= 2 else full[-2:]  # torch wants L and S named
    hidden = torch.rand(shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    if draw(st.booleans()):
        return ~hidden
    return _numbers(*shape).masked_fill(hidden, -torch.inf)


@st.composite
def calls(draw: st.DrawFn) -> Given:
    """Two to five axes; L, S, E and Ev apart; batches that spread; grouped heads."""
    torch.manual_seed(draw(st.integers(0, 9999)))
    queries, keys, dim, value_dim = (draw(st.integers(1, 6)) for _ in range(4))
    full = tuple(draw(st.sampled_from([1, 2, 3])) for _ in range(draw(st.integers(0, 3))))
    options: dict[str, Any] = {"scale": draw(st.none() | st.sampled_from([0.3, 2.0]))}
    lead = key_lead = full
    if full and draw(st.booleans()):
        lead = full = (*full[:-1], full[-1] * draw(st.sampled_from([1, 2, 3])))
        options["enable_gqa"] = True
    elif draw(st.booleans()):
        lead, key_lead = draw(broadcast(full)), draw(broadcast(full))
        full = torch.broadcast_shapes(lead, key_lead)
    kind = draw(st.sampled_from(["none", "mask", "causal"]))
    if kind == "mask":
        options["attn_mask"] = draw(masks((*full, queries, keys)))
    options["is_causal"] = kind == "causal"
    sizes = (*lead, queries, dim), (*key_lead, keys, dim), (*key_lead, keys, value_dim)
    return Given([_numbers(*size) for size in sizes], options)


def test_the_signature_is_torchs() -> None:
    """torch's own is built in and shows none; its documentation's is written out here."""
    said = [
        (p.name, p.default if p.default is not p.empty else "needed", p.kind.description)
        for p in inspect.signature(ours).parameters.values()
    ]
    either, only = "positional or keyword", "keyword-only"
    assert said == [
        ("query", "needed", either), ("key", "needed", either), ("value", "needed", either),
        ("attn_mask", None, either), ("dropout_p", 0.0, either), ("is_causal", False, either),
        ("scale", None, only), ("enable_gqa", False, only),
    ]  # fmt: skip


@settings(max_examples=150)
@given(given=calls())
def test_output_and_gradients_equal_torchs(given: Given) -> None:
    leaves = [leaf.requires_grad_() for leaf in given.leaves]
    mine, right = given.run(ours), given.run(theirs)
    assert_close(mine, right, **NEAR)
    on = torch.randn_like(right)
    assert_close(*(torch.autograd.grad((out * on).sum(), leaves) for out in (mine, right)), **NEAR)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_other_precisions(dtype: torch.dtype) -> None:
    q, k, v = qkv(9, dim=16, heads=(3, 3), dtype=dtype)
    mine, right = ours(q, k, v, is_causal=True), theirs(q, k, v, is_causal=True)
    assert mine.dtype == dtype
    exact = theirs(q.double(), k.double(), v.double(), is_causal=True)
    lost, allowed = ((x.double() - exact).abs().max() for x in (mine, right))
    assert lost <= 2 * allowed + 1e-6


# ── dropout ──────────────────────────────────────────────────────────────────────────────────

each_with_dropout = pytest.mark.parametrize("implementation", ["tiled", "dense"])


def attend(dropout: float, seed: int, implementation: str, length: int = 6) -> Any:
    """The same numbers whatever the seed of the dropout."""
    leaves = qkv(length, heads=(2, 2), batch=(1,), dim=4, dtype=torch.float64, grad=True)
    torch.manual_seed(seed)
    a = regard.attend(
        *leaves, mask=regard.Causal(), dropout=dropout, implementation=implementation,
        summaries=(regard.Entropy(),),
    )  # fmt: skip
    return a, leaves


@each_with_dropout
def test_the_mean_over_many_seeds_is_the_output_without_dropout(implementation: str) -> None:
    right = attend(0.0, 0, implementation)[0].output.detach()
    with torch.no_grad():
        runs = torch.stack([attend(0.4, seed, implementation)[0].output for seed in range(100)])
    spread = runs.std(0) / len(runs) ** 0.5
    assert (runs.std(0) > 0).any()
    assert ((runs.mean(0) - right).abs() <= 5 * spread + 1e-12).all()


@each_with_dropout
def test_the_same_seed_drops_the_same_cells(implementation: str) -> None:
    first, again, other = (attend(0.5, s, implementation)[0].output for s in (7, 7, 8))
    assert torch.equal(first, again) and not torch.equal(first, other)
    q = torch.randn(1, 5, 4)
    one, two = ours(q, q, q, dropout_p=0.5), ours(q, q, q, dropout_p=0.5)
    assert not torch.equal(one, two), "the next call draws anew"
    assert (ours(q, q, q, dropout_p=1.0) == 0).all()


@pytest.mark.parametrize("length", [6, 150])
def test_the_gradient_uses_the_cells_that_were_dropped(length: int) -> None:
    """Against autograd through the definition with the same cells set to 0 and doubled: which
    ones a seed keeps is seen through values of 1."""
    a, leaves = attend(0.5, 3, "tiled", length)
    eye = torch.eye(length, dtype=torch.float64).expand(1, 2, length, length)
    torch.manual_seed(3)
    options = {"mask": regard.Causal(), "dropout": 0.5, "implementation": "tiled"}
    kept = regard.attend(*(t.detach() for t in leaves[:2]), eye, **options)
    kept = torch.where(kept[...] > 0, kept.output / kept[...], 0.0)
    assert_close(kept[kept != 0], torch.full_like(kept[kept != 0], 2.0), **NEAR)
    assert (kept[..., -1, :] == 0).any()
    q, k, v = leaves
    hidden = ~torch.ones(length, length, dtype=torch.bool).tril()
    output = ((q @ k.mT / 2).masked_fill(hidden, -torch.inf).softmax(-1) * kept) @ v
    assert_close(a.output, output, **NEAR)
    on = torch.randn_like(output)
    grads = [torch.autograd.grad((out * on).sum(), leaves) for out in (a.output, output)]
    assert_close(*grads, **NEAR)


def test_no_two_tiles_drop_alike() -> None:
    """128 queries by 512 keys are computed at a time, and each draws anew."""
    q, k, v = torch.zeros(1, 256, 4), torch.zeros(1, 1024, 4), torch.eye(1024)[None]
    torch.manual_seed(0)
    kept = regard.attend(q, k, v, dropout=0.5, implementation="tiled").output > 0
    tiles = [kept[..., i : i + 128, j : j + 512] for i in (0, 128) for j in (0, 512)]
    for one, other in itertools.combinations(tiles, 2):
        assert 0.45 < float((one == other).double().mean()) < 0.55


@each_with_dropout
def test_statistics_and_their_gradients_do_not_see_dropout(implementation: str) -> None:
    (dropped, leaves), (plain, same) = (attend(p, 5, implementation) for p in (0.5, 0.0))
    assert not torch.equal(dropped.output, plain.output)
    for ask in (lambda a: a.lse, lambda a: a.entropy(), lambda a: a[...], lambda a: a.received()):
        assert torch.equal(ask(dropped), ask(plain))
    grads = [
        torch.autograd.grad((a.lse + a.entropy()).sum(), given[:2])
        for a, given in ((dropped, leaves), (plain, same))
    ]
    assert_close(*grads, **NEAR)
