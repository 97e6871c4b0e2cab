"""Attention over DTensors: every question has one rank's answer, and one rank's gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)

import regard
from fuzz._answers import ANSWERS, REFUSED, ramp
from installed import needs
from parallel.world import WORLDS, run
from regard.engine.backends import dtensor
from regard.errors import InputError, StaleError, UnavailableError
from regard.summary import Entropy, Matching, Offsets, Pooled, Top

AXES = {"batch": 0, "heads": 1, "queries": 2, "width": 3}
CAUSAL = {"mask": regard.Causal()}
WITHOUT_GRADIENT: dict[str, Callable[[regard.Attention], Tensor]] = {
    **{name: ask for name, (ask, _) in REFUSED.items()},
    "top keys": lambda a: a.top(3).keys,
    "max score": lambda a: a.max_score(),
    "largest of some groups": lambda a: a.received(queries=3, how="max", groups="max"),
    "largest weighted": lambda a: a.received(4, how="max", weighted_by=ramp(a.shape[-2], a)),
    "distance": lambda a: a.distance(),
    "pooled": lambda a: a.pooled(3),
    "diagonals": lambda a: a.summarize(Offsets())[Offsets()],
}
QUESTIONS: dict[str, Callable[[regard.Attention], Tensor]] = {
    **{name: ask for name, (ask, _) in ANSWERS.items()},
    "output": lambda a: a.output,
    "mass of some": lambda a: a.received(queries=[0, 3, -1]),
    "mass of groups": lambda a: a.received(groups="mean"),
    "mass per visible of groups": lambda a: a.received(per="visible", groups="sum"),
    "cells": lambda a: a[0, [0, 1], [1, 0], [0, 0]],
    "scores, some": lambda a: a.scores[..., 1:4, ::2],
}


@pytest.fixture(autouse=True)
def _served() -> None:
    needs("torch", "2.11", "attention over DTensors is served")


def test_an_older_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtensor, "_IS_TOO_OLD", True)
    monkeypatch.setattr(dtensor, "_is_dtensor", lambda tensor: True)
    with pytest.raises(UnavailableError, match=r"needs torch 2\.11 or newer, and .* is installed"):
        regard.attend(*tensors())


def tensors(
    heads: int = 4, key_heads: int = 2, queries: int = 9, keys: int = 9, batch: int = 2
) -> list[Tensor]:
    """q, k, v, the same on every rank."""
    dice = torch.Generator().manual_seed(0)
    sizes = ((heads, queries), (key_heads, keys), (key_heads, keys))
    return [
        torch.randn(batch, h, n, 8, generator=dice, dtype=torch.float64).requires_grad_()
        for h, n in sizes
    ]


def line() -> DeviceMesh:
    """All ranks in a row."""
    return init_device_mesh("cpu", (dist.get_world_size(),))


def spread(given: Sequence[Tensor], mesh: DeviceMesh, placements: Sequence[Any]) -> list[Any]:
    """The tensors as DTensors that are leaves of their own, all placed alike or one by one."""
    each = [placements] * 3 if isinstance(placements[0], Placement) else placements
    made = [distribute_tensor(t.detach(), mesh, at) for t, at in zip(given, each, strict=True)]
    return [t.requires_grad_() for t in made]


def whole(answer: Tensor) -> Tensor:
    """What all ranks say together."""
    return answer.full_tensor() if isinstance(answer, DTensor) else answer


def near(answer: Tensor, right: Tensor, name: str) -> None:
    torch.testing.assert_close(
        whole(answer), right, rtol=1e-9, atol=1e-11, msg=lambda text: f"{name}: {text}"
    )


def compare(
    given: list[Tensor], sharded: list[Any], options: dict[str, Any], apart: bool = False
) -> None:
    """All questions, and their gradients: of each by itself where `apart`, else of all at once."""
    learnt = [name for name, t in options.items() if isinstance(t, Tensor) and t.requires_grad]
    twins = options | {name: options[name].detach().requires_grad_() for name in learnt}
    right, mine = regard.attend(*given, **options), regard.attend(*sharded, **twins)
    losses: dict[str, tuple[Tensor, Tensor]] = {}
    for name, ask in (QUESTIONS | WITHOUT_GRADIENT).items():
        a, b = ask(right), ask(mine)
        near(b, a, name)
        if name in QUESTIONS and a.requires_grad:  # a sink that is not there has none
            losses[name] = weighed(a), weighed(whole(b))
    if not apart:
        both = zip(*losses.values(), strict=True)
        losses = {"all": tuple(torch.stack(side).sum() for side in both)}  # type: ignore[dict-item]
    leaves = [*given, *(options[name] for name in learnt)]
    others = [*sharded, *(twins[name] for name in learnt)]
    for name, (one, many) in losses.items():
        exact = torch.autograd.grad(one, leaves, retain_graph=True, allow_unused=True)
        grads = torch.autograd.grad(many, others, retain_graph=True, allow_unused=True)
        for n, (x, y) in enumerate(zip(exact, grads, strict=True)):
            if x is not None and y is not None:
                near(y, x, f"gradient {n} of {name}")
            else:
                assert x is None and (y is None or not whole(y).any()), name


def weighed(answer: Tensor) -> Tensor:
    """One number, to which every finite entry adds a different share."""
    weight = torch.linspace(0.5, 1.5, answer.numel(), dtype=answer.dtype).reshape(answer.shape)
    return (torch.where(answer.isfinite(), answer, 0.0) * weight).sum()


# ── axes, rules, sizes ───────────────────────────────────────────────────────────────────────

NUMBERS = torch.Generator().manual_seed(7)


def _numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=NUMBERS, dtype=torch.float64).requires_grad_()


def _odd(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (batch + 2 * head + i + j) % 3 != 0


def _even(i: Tensor, j: Tensor) -> Tensor:
    return (i + j) % 2 == 0


LENGTHS = torch.tensor([9, 4])
IDS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2], [0, 1, 1, 1, 1, 1, 2, 2, 2]])
TABLE = torch.rand(2, 4, 9, 9, generator=NUMBERS) < 0.7
RULES: dict[str, dict[str, Any]] = {
    "causal from the start": {"mask": regard.Causal("start")},
    "window or prefix": {"mask": regard.Window(2) | regard.Prefix(torch.tensor([1, 3]))},
    "lengths": {"mask": regard.Causal() & regard.Padding(LENGTHS, LENGTHS)},
    "flags": {"mask": regard.Padding(torch.arange(9) < LENGTHS[:, None])},
    "documents": {"mask": regard.Documents(IDS) & ~regard.Window(1)},
    "one table for all": {"mask": TABLE[:1, :1]},
    "a table per head": {"mask": TABLE},
    "a rule of places": {"mask": regard.Rule(_even)},
    "a rule of heads": {"mask": regard.Rule(_odd)},
    "bias of heads": {"bias": _numbers(4, 9, 9)},
    "bias of entries": {"bias": _numbers(2, 1, 1, 9), "softcap": 2.0},
    "slopes": {"bias": regard.ALiBi([0.1, 0.2, 0.3, 0.4]), **CAUSAL},
    "buckets": {"bias": regard.RelativeBias(torch.randn(8, 4, dtype=torch.float64), True, 6)},
    "sink": {"sink": _numbers(4), **CAUSAL},
}
SIZES: dict[str, tuple[str, dict[str, int]]] = {  # and the axis that they are about
    "groups torn apart": ("heads", {"heads": 6, "key_heads": 3}),
    "fewer key heads than ranks": ("heads", {"heads": 8, "key_heads": 1}),
    "heads that do not divide": ("heads", {"heads": 5, "key_heads": 5}),
    "fewer heads than ranks": ("heads", {"heads": 2, "key_heads": 2}),
    "more keys than queries": ("queries", {"queries": 5, "keys": 11}),
    "more queries than keys": ("queries", {"queries": 11, "keys": 4}),
    "an odd batch": ("batch", {"batch": 3, "queries": 7, "keys": 7}),
}


def _check(axis: int, options: dict[str, Any], sizes: dict[str, int], apart: bool = False) -> None:
    given = tensors(**sizes)
    compare(given, spread(given, line(), [Shard(axis)]), options, apart)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("axis", AXES)
def test_every_question(world: int, axis: str) -> None:
    run(world, _check, AXES[axis], CAUSAL, {}, world == 2)


@pytest.mark.parametrize("axis", ("batch", "heads", "queries"))
@pytest.mark.parametrize("rule", RULES)
def test_rules_are_cut_along(axis: str, rule: str) -> None:
    run(2, _check, AXES[axis], RULES[rule], {})


@pytest.mark.sampled(9)
@pytest.mark.parametrize("world", (2, 3, 4))
@pytest.mark.parametrize("size", SIZES)
def test_sizes_that_do_not_divide(world: int, size: str) -> None:
    axis, sizes = SIZES[size]
    for at in ("batch", "heads", "queries") if world == 3 else (axis,):
        run(world, _check, AXES[at], CAUSAL, sizes)


# ── meshes and placements ────────────────────────────────────────────────────────────────────


def _on_a_plane(placements: list[Placement]) -> None:
    given = tensors()
    compare(given, spread(given, init_device_mesh("cpu", (2, 2)), placements), CAUSAL)


@pytest.mark.parametrize(
    "placements",
    [
        [Shard(0), Shard(1)], [Shard(1), Shard(2)], [Replicate(), Shard(2)], [Shard(2), Shard(2)],
        [Shard(1), Shard(1)],
    ],
    ids=str,
)  # fmt: skip
def test_meshes_of_two_axes(placements: list[Placement]) -> None:
    run(4, _on_a_plane, placements)


def _placed_apart(*places: Placement) -> Any:
    given = tensors(batch=4)
    sharded = spread(given, line(), [[place] for place in places])
    compare(given, sharded, CAUSAL)
    (placement,) = regard.attend(*sharded).output.placements
    return placement


@pytest.mark.parametrize(
    ("places", "right"),
    [
        ((Shard(1), Replicate(), Replicate()), Shard(1)),
        ((Replicate(), Shard(1), Shard(1)), Shard(1)),
        ((Replicate(), Shard(0), Shard(2)), Shard(0)),
        ((Shard(2), Shard(2), Shard(1)), Shard(2)),
        ((Replicate(), Shard(2), Shard(2)), Replicate()),  # keys along the sequence are gathered
        ((Replicate(), Replicate(), Replicate()), Replicate()),
    ],
    ids=str,
)
def test_the_queries_decide_and_else_the_keys(places: Any, right: Placement) -> None:
    assert run(2, _placed_apart, *places) == [right, right]


def _placements_of_answers() -> None:
    given = tensors()
    a = regard.attend(*spread(given, line(), [Shard(2)]), **CAUSAL)
    heads = regard.attend(*spread(given, line(), [Shard(1)]))
    assert a.received().placements == (Partial(),)
    assert heads.received().placements == (Shard(1),)
    assert a.entropy().placements == a.top(2).keys.placements == (Shard(2),)
    assert a.implementation == "sharded"
    assert (tuple(a.output.shape), a.shape) == ((2, 4, 9, 8), (2, 4, 9, 9))
    assert type(a[..., 0, :]) is Tensor


def test_answers_are_placed_like_the_query_and_mass_is_a_sum() -> None:
    run(2, _placements_of_answers)


# ── the other ways in ────────────────────────────────────────────────────────────────────────


def _other_ways() -> None:
    given = [t.detach() for t in tensors()]
    q, k, v = spread(given, line(), [Shard(2)])
    right = regard.attend(*given, **CAUSAL)
    for lse in (right.lse, regard.attend(q, k, v, **CAUSAL).lse, None):
        again = regard.replay(q, k, lse, **CAUSAL)
        near(again.received(), right.received(), "replay")
        near(again[..., 3, :], right[..., 3, :], "replay")
    kind = {"is_causal": True, "enable_gqa": True}
    twin = torch.nn.functional.scaled_dot_product_attention(*given, **kind)
    near(regard.scaled_dot_product_attention(q, k, v, **kind), twin, "twin")
    with torch.no_grad():
        dense = regard.attend(q, k, v, implementation="dense")
        near(dense.output, regard.attend(*given).output, "no gradient")
    marks = torch.arange(9) % 3
    asked = (Entropy(), Matching(marks, marks), Pooled(2))
    mine, one = (regard.attend(*three, summaries=asked) for three in ((q, k, v), given))
    for summary in asked:
        near(mine.summarize(summary)[summary], one.summarize(summary)[summary], repr(summary))
    near(mine.detach().entropy(), one.entropy(), "detached")
    near(mine.clone().received(), one.received(), "cloned")
    flat = [t[0, 0] for t in given]
    near(regard.attend(*spread(flat, line(), [Shard(0)])).output, regard.attend(*flat).output, "1")


def _parts() -> None:
    q, k, v = (t.detach() for t in tensors())
    asked, parts = (Top(3), Entropy()), []
    for a, b in ((0, 4), (4, 9)):
        mine = spread([q, k[..., a:b, :], v[..., a:b, :]], line(), [Shard(1)])
        options = {"summaries": asked, "key_start": a, "total_keys": 9, **CAUSAL}
        parts.append(regard.attend_partial(*mine, **options))
    merged, right = regard.merge(*parts).finish(), regard.attend(q, k, v, **CAUSAL)
    near(merged.output, right.output, "output")
    near(merged.entropy(), right.entropy(), "entropy")
    near(merged.top(3).keys, right.top(3).keys, "keys")


def _compiled() -> None:
    given = [t.detach() for t in tensors()]
    sharded = spread(given, line(), [Shard(1)])

    @torch.compile(backend="aot_eager")
    def entropy(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        a = regard.attend(q, k, v, mask=regard.Causal())
        return a.entropy() + a.lse

    right = regard.attend(*given, **CAUSAL)
    near(entropy(*sharded), right.entropy() + right.lse, "compiled")
    near(entropy(*given), right.entropy() + right.lse, "plain tensors, compiled beside DTensors")
    dist.barrier()


@pytest.mark.parametrize(
    "way", [_other_ways, _parts, pytest.param(_compiled, marks=pytest.mark.rest)]
)
def test_the_other_ways_in(way: Callable[[], None]) -> None:
    """Replay, the twin of torch's function, no gradient, statistics on the way, one head; parts of
    the keys; compiled code."""
    run(2, way)


def _refused() -> None:
    given = [t.detach() for t in tensors()]
    q, k, v = spread(given, line(), [Shard(1)])
    with pytest.raises(InputError, match="key is a plain tensor"):
        regard.attend(q, given[1], v)
    with pytest.raises(InputError, match="query is a plain tensor"):
        regard.attend(given[0], k, v)
    with pytest.raises(UnavailableError, match="dropout"):
        regard.attend(q, k, v, dropout=0.5)
    a = regard.attend(q, k, v)
    with torch.no_grad():
        k.mul_(2.0)
    with pytest.raises(StaleError):
        a.entropy()


def test_what_cannot_be_is_said() -> None:
    run(2, _refused)
