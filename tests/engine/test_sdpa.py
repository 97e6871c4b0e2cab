"""regard.scaled_dot_product_attention is torch's function, argument for argument."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, field
from functools import partial as bind
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.errors import InputError

ours, theirs = regard.scaled_dot_product_attention, F.scaled_dot_product_attention
near = bind(torch.testing.assert_close, rtol=1e-10, atol=1e-10)
often = settings(max_examples=150, deadline=None)


@dataclass
class Given:
    """Arguments of one call."""

    query: Tensor
    key: Tensor
    value: Tensor
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def leaves(self) -> list[Tensor]:
        made = [self.query, self.key, self.value]
        mask = self.options.get("attn_mask")
        return made if mask is None or mask.dtype == torch.bool else [*made, mask]

    def run(self, function: Any) -> Tensor:
        return function(self.query, self.key, self.value, **self.options)


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
    size = st.integers(1, 6)
    queries, keys, dim, value_dim = (draw(size) for _ in range(4))
    lead = tuple(draw(st.sampled_from([1, 2, 3])) for _ in range(draw(st.integers(0, 3))))
    options: dict[str, Any] = {"scale": draw(st.none() | st.sampled_from([0.3, 2.0]))}
    key_lead = lead
    if lead and draw(st.booleans()):
        group = draw(st.sampled_from([1, 2, 3]))
        lead = (*lead[:-1], lead[-1] * group)
        options["enable_gqa"] = True
    elif lead and draw(st.booleans()):
        key_lead = tuple(draw(st.sampled_from([1, n])) for n in lead)
    kind = draw(st.sampled_from(["none", "mask", "causal"]))
    if kind == "mask":
        options["attn_mask"] = draw(masks((*lead, queries, keys)))
    options["is_causal"] = kind == "causal"
    return Given(
        _numbers(*lead, queries, dim),
        _numbers(*key_lead, keys, dim),
        _numbers(*key_lead, keys, value_dim),
        options,
    )


def test_the_signature_is_torchs():
    """torch's own is built in and shows none; its documentation's is written out here."""
    said = [
        (p.name, p.default if p.default is not p.empty else "needed", p.kind.description)
        for p in inspect.signature(ours).parameters.values()
    ]
    either, only = "positional or keyword", "keyword-only"
    assert said == [
        ("query", "needed", either),
        ("key", "needed", either),
        ("value", "needed", either),
        ("attn_mask", None, either),
        ("dropout_p", 0.0, either),
        ("is_causal", False, either),
        ("scale", None, only),
        ("enable_gqa", False, only),
    ]


@often
@given(given=calls())
def test_output_and_gradients_equal_torchs(given):
    leaves = [leaf.requires_grad_() for leaf in given.leaves]
    found, expected = given.run(ours), given.run(theirs)
    near(found, expected)
    weights = torch.randn_like(expected)
    mine, right = (torch.autograd.grad((out * weights).sum(), leaves) for out in (found, expected))
    for one, other in zip(mine, right, strict=True):
        near(one, other)


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ((4, 5, 8), (1, 5, 8)),
        ((1, 5, 8), (4, 5, 8)),
        ((2, 4, 5, 8), (2, 1, 5, 8)),
        ((2, 4, 5, 8), (4, 5, 8)),
        ((5, 8), (2, 3, 5, 8)),
        ((2, 1, 5, 8), (1, 3, 5, 8)),
    ],
    ids=str,
)
def test_batch_and_heads_broadcast(query, key):
    torch.manual_seed(0)
    given = Given(_numbers(*query), _numbers(*key), _numbers(*key))
    near(given.run(ours), given.run(theirs))


@pytest.mark.parametrize(("queries", "keys"), [(3, 7), (7, 3), (5, 5), (1, 6)])
def test_causal_starts_at_the_first_key(queries, keys):
    torch.manual_seed(0)
    given = Given(_numbers(2, queries, 4), _numbers(2, keys, 4), _numbers(2, keys, 4))
    given.options["is_causal"] = True
    near(given.run(ours), given.run(theirs))
    visible = torch.ones(queries, keys, dtype=torch.bool).tril()
    near(given.run(ours), ours(given.query, given.key, given.value, visible))


def test_a_row_that_sees_nothing_is_zero():
    q, k, v = (_numbers(2, 3, 4) for _ in range(3))
    visible = torch.tensor([[True, True, True], [False, False, False], [True, False, False]])
    for mask in (visible, torch.zeros(3, 3).double().masked_fill(~visible, -torch.inf)):
        found = ours(q, k, v, mask)
        near(found, theirs(q, k, v, mask))
        assert (found[:, 1] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_other_precisions(dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 9, 16).to(dtype) for _ in range(3))
    found, expected = ours(q, k, v, is_causal=True), theirs(q, k, v, is_causal=True)
    assert found.dtype == dtype
    exact = theirs(q.double(), k.double(), v.double(), is_causal=True)
    mine, right = ((x.double() - exact).abs().max() for x in (found, expected))
    assert mine <= 2 * right + 1e-6


def test_a_mask_and_is_causal_exclude_each_other_as_in_torch():
    q, mask = torch.randn(2, 3, 4), torch.ones(3, 3, dtype=torch.bool)
    with pytest.raises(InputError, match="attn_mask and is_causal=True exclude each other"):
        ours(q, q, q, mask, is_causal=True)
    with pytest.raises(RuntimeError, match="is_causal"):
        theirs(q, q, q, mask, is_causal=True)


# ── dropout ──────────────────────────────────────────────────────────────────────────────────

IMPLEMENTATIONS = pytest.mark.parametrize("implementation", ["tiled", "dense"])


def _attention(dropout: float, seed: int, implementation: str = "tiled", length: int = 6) -> Any:
    """The same numbers whatever the seed of the dropout."""
    dice = torch.Generator().manual_seed(1)
    q, k, v = (
        torch.randn(1, 2, length, 4, generator=dice, dtype=torch.float64).requires_grad_()
        for _ in range(3)
    )
    torch.manual_seed(seed)
    a = regard.attend(
        q, k, v, mask=regard.Causal(), dropout=dropout, implementation=implementation,
        summaries=(regard.Entropy(),),
    )  # fmt: skip
    return a, (q, k, v)


def test_everything_dropped_is_zero():
    q = torch.randn(2, 3, 4)
    assert (ours(q, q, q, dropout_p=1.0) == 0).all()


@IMPLEMENTATIONS
def test_the_mean_over_many_seeds_is_the_output_without_dropout(implementation):
    right = _attention(0.0, 0, implementation)[0].output.detach()
    with torch.no_grad():
        runs = torch.stack([_attention(0.4, seed, implementation)[0].output for seed in range(300)])
    spread = runs.std(0) / len(runs) ** 0.5
    assert (runs.std(0) > 0).any()
    assert ((runs.mean(0) - right).abs() <= 5 * spread + 1e-12).all()


@IMPLEMENTATIONS
def test_the_same_seed_drops_the_same_cells(implementation):
    first, again, other = (_attention(0.5, s, implementation)[0].output for s in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    torch.manual_seed(7)
    q = torch.randn(1, 5, 4)
    one, two = ours(q, q, q, dropout_p=0.5), ours(q, q, q, dropout_p=0.5)
    assert not torch.equal(one, two), "the next call draws anew"


def _kept(length: int, seed: int) -> Tensor:
    """Which cells a seed keeps, and what they are multiplied with: seen through values of 1."""
    eye = torch.eye(length, dtype=torch.float64).expand(1, 2, length, length)
    dice = torch.Generator().manual_seed(1)
    q, k = (torch.randn(1, 2, length, 4, generator=dice, dtype=torch.float64) for _ in range(2))
    torch.manual_seed(seed)
    run = bind(regard.attend, q, k, eye, mask=regard.Causal(), implementation="tiled")
    a = run(dropout=0.5)
    return torch.where(a[...] > 0, a.output / a[...], 0.0)


@pytest.mark.parametrize("length", [6, 150])
def test_the_gradient_uses_the_cells_that_were_dropped(length):
    """Against autograd through the definition with the same cells set to 0 and doubled."""
    a, leaves = _attention(0.5, 3, "tiled", length)
    kept = _kept(length, 3)
    near(kept[kept != 0], torch.full_like(kept[kept != 0], 2.0))
    assert (kept[..., -1, :] == 0).any()
    weights = torch.randn_like(a.output)
    found = torch.autograd.grad((a.output * weights).sum(), leaves)
    q, k, v = leaves
    hidden = ~torch.ones(length, length, dtype=torch.bool).tril()
    p = (q @ k.mT / 2).masked_fill(hidden, -torch.inf).softmax(-1)
    output = (p * kept) @ v
    near(a.output, output)
    for mine, right in zip(
        found, torch.autograd.grad((output * weights).sum(), leaves), strict=True
    ):
        near(mine, right)


def test_no_two_tiles_drop_alike():
    """128 queries by 512 keys are computed at a time, and each draws anew."""
    q, k, v = torch.zeros(1, 256, 4), torch.zeros(1, 1024, 4), torch.eye(1024)[None]
    torch.manual_seed(0)
    kept = regard.attend(q, k, v, dropout=0.5, implementation="tiled").output > 0
    tiles = [kept[..., i : i + 128, j : j + 512] for i in (0, 128) for j in (0, 512)]
    for one, other in itertools.combinations(tiles, 2):
        assert 0.45 < float((one == other).double().mean()) < 0.55


@IMPLEMENTATIONS
def test_statistics_do_not_see_dropout(implementation):
    dropped, plain = (_attention(p, 5, implementation)[0] for p in (0.5, 0.0))
    assert torch.equal(dropped.lse, plain.lse)
    assert torch.equal(dropped.entropy(), plain.entropy())
    assert torch.equal(dropped[...], plain[...])
    assert torch.equal(dropped.received(), plain.received())
    assert not torch.equal(dropped.output, plain.output)


@IMPLEMENTATIONS
def test_gradients_of_statistics_do_not_see_dropout_either(implementation):
    (a, leaves), (b, same) = (_attention(p, 5, implementation) for p in (0.5, 0.0))
    found = torch.autograd.grad((a.lse + a.entropy()).sum(), leaves[:2])
    right = torch.autograd.grad((b.lse + b.entropy()).sum(), same[:2])
    for mine, other in zip(found, right, strict=True):
        near(mine, other)
