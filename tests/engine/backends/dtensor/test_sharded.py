"""Attention over DTensors says what attention on one rank says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)

import regard
from engine.backends.dtensor.questions import compare, line, near, spread, tensors, whole
from installed import needs
from parallel.world import WORLDS, run
from regard.engine.backends import dtensor
from regard.errors import InputError, StaleError, UnavailableError

AXES = {"batch": 0, "heads": 1, "queries": 2, "width": 3}
NUMBERS = torch.Generator().manual_seed(7)


@pytest.fixture(autouse=True)
def _served() -> None:
    needs("torch", "2.11", "attention over DTensors is served")


def test_an_older_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtensor, "_IS_TOO_OLD", True)
    monkeypatch.setattr(dtensor, "_is_dtensor", lambda tensor: True)
    with pytest.raises(UnavailableError, match=r"needs torch 2\.11 or newer, and .* is installed"):
        regard.attend(*tensors())


def _numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=NUMBERS, dtype=torch.float64).requires_grad_()


def _odd(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (batch + 2 * head + i + j) % 3 != 0


def _even(i: Tensor, j: Tensor) -> Tensor:
    return (i + j) % 2 == 0


LENGTHS = torch.tensor([9, 4])
FLAGS = torch.arange(9) < LENGTHS[:, None]
IDS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2], [0, 1, 1, 1, 1, 1, 2, 2, 2]])
TABLE = torch.rand(2, 4, 9, 9, generator=NUMBERS) < 0.7
RULES: dict[str, dict[str, Any]] = {
    "causal from the start": {"mask": regard.Causal("start")},
    "window or prefix": {"mask": regard.Window(2) | regard.Prefix(torch.tensor([1, 3]))},
    "lengths": {"mask": regard.Causal() & regard.Padding(LENGTHS, LENGTHS)},
    "flags": {"mask": regard.Padding(FLAGS)},
    "documents": {"mask": regard.Documents(IDS) & ~regard.Window(1)},
    "one table for all": {"mask": TABLE[:1, :1]},
    "a table per head": {"mask": TABLE},
    "a rule of places": {"mask": regard.Rule(_even)},
    "a rule of heads": {"mask": regard.Rule(_odd)},
    "bias of heads": {"bias": _numbers(4, 9, 9)},
    "bias of entries": {"bias": _numbers(2, 1, 1, 9), "softcap": 2.0},
    "slopes": {"bias": regard.ALiBi([0.1, 0.2, 0.3, 0.4]), "mask": regard.Causal()},
    "buckets": {"bias": regard.RelativeBias(torch.randn(8, 4, dtype=torch.float64), True, 6)},
    "sink": {"sink": _numbers(4), "mask": regard.Causal()},
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
    run(world, _check, AXES[axis], {"mask": regard.Causal()}, {}, True)


@pytest.mark.parametrize("axis", ("batch", "heads", "queries"))
@pytest.mark.parametrize("rule", RULES)
def test_rules_are_cut_along(axis: str, rule: str) -> None:
    run(2, _check, AXES[axis], RULES[rule], {})


@pytest.mark.parametrize("world", (2, 3, 4))
@pytest.mark.parametrize("size", SIZES)
def test_sizes_that_do_not_divide(world: int, size: str) -> None:
    axis, sizes = SIZES[size]
    for at in ("batch", "heads", "queries") if world == 3 else (axis,):
        run(world, _check, AXES[at], {"mask": regard.Causal()}, sizes)


# ── meshes and placements ────────────────────────────────────────────────────────────────────


def _on_a_plane(placements: list[Placement], sizes: dict[str, int]) -> None:
    mesh = init_device_mesh("cpu", (2, 2))
    given = tensors(**sizes)
    compare(given, spread(given, mesh, placements), {"mask": regard.Causal()})


@pytest.mark.parametrize(
    "placements",
    [
        [Shard(0), Shard(1)],
        [Shard(1), Shard(2)],
        [Replicate(), Shard(2)],
        [Shard(2), Shard(2)],
        [Shard(1), Shard(1)],
    ],
    ids=str,
)
def test_meshes_of_two_axes(placements: list[Placement]) -> None:
    run(4, _on_a_plane, placements, {})


def _placed_apart(query: Placement, key: Placement, value: Placement) -> tuple[Any, ...]:
    mesh = line()
    given = tensors(batch=4)
    sharded = [
        distribute_tensor(t.detach(), mesh, [at]).requires_grad_()
        for t, at in zip(given, (query, key, value), strict=True)
    ]
    compare(given, sharded, {"mask": regard.Causal()})
    return regard.attend(*sharded).output.placements


def test_the_queries_decide_and_else_the_keys() -> None:
    cases = {
        (Shard(1), Replicate(), Replicate()): Shard(1),
        (Replicate(), Shard(1), Shard(1)): Shard(1),
        (Replicate(), Shard(0), Shard(2)): Shard(0),
        (Shard(2), Shard(2), Shard(1)): Shard(2),
        (Replicate(), Shard(2), Shard(2)): Replicate(),  # keys along the sequence are gathered
        (Replicate(), Replicate(), Replicate()): Replicate(),
    }
    for given, right in cases.items():
        assert run(2, _placed_apart, *given) == [(right,), (right,)]


def _placements_of_answers() -> dict[str, Any]:
    given = tensors()
    a = regard.attend(*spread(given, line(), [Shard(2)]), mask=regard.Causal())
    heads = regard.attend(*spread(given, line(), [Shard(1)]))
    return {
        "mass": a.received().placements,
        "mass of heads": heads.received().placements,
        "entropy": a.entropy().placements,
        "top": a.top(2).keys.placements,
        "implementation": a.implementation,
        "shape": (tuple(a.output.shape), a.shape),
        "row": type(a[..., 0, :]),
    }


def test_answers_are_placed_like_the_query_and_mass_is_a_sum() -> None:
    found = run(2, _placements_of_answers)[0]
    assert found["mass"] == (Partial(),)
    assert found["mass of heads"] == (Shard(1),)
    assert found["entropy"] == found["top"] == (Shard(2),)
    assert found["implementation"] == "sharded"
    assert found["shape"] == ((2, 4, 9, 8), (2, 4, 9, 9))
    assert found["row"] is Tensor


# ── the other ways in ────────────────────────────────────────────────────────────────────────


def _other_ways() -> None:
    given = [t.detach() for t in tensors()]
    q, k, v = spread(given, line(), [Shard(2)])
    right = regard.attend(*given, mask=regard.Causal())
    for lse in (right.lse, regard.attend(q, k, v, mask=regard.Causal()).lse, None):
        again = regard.replay(q, k, lse, mask=regard.Causal())
        near(again.received(), right.received(), "replay")
        near(again[..., 3, :], right[..., 3, :], "replay")
    twin = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True, enable_gqa=True)
    near(
        regard.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), twin, "twin"
    )
    with torch.no_grad():
        near(regard.attend(q, k, v, implementation="dense").output,
             regard.attend(*given).output, "no gradient")  # fmt: skip
    marks = torch.arange(9) % 3
    matching = regard.Matching(marks, marks)
    found = regard.attend(q, k, v, summaries=(regard.Entropy(), matching, regard.Pooled(2)))
    one = regard.attend(*given, summaries=(regard.Entropy(), matching, regard.Pooled(2)))
    for summary in (regard.Entropy(), matching, regard.Pooled(2)):
        near(found.summarize(summary)[summary], one.summarize(summary)[summary], repr(summary))
    near(found.detach().entropy(), one.entropy(), "detached")
    near(found.clone().received(), one.received(), "cloned")
    flat = spread([t[0, 0] for t in given], line(), [Shard(0)])
    near(regard.attend(*flat).output, regard.attend(*(t[0, 0] for t in given)).output, "one head")


def _parts() -> None:
    given = [t.detach() for t in tensors()]
    q, k, v = given
    asked = (regard.Top(3), regard.Entropy())
    parts = []
    for a, b in ((0, 4), (4, 9)):
        mine = spread([q, k[..., a:b, :], v[..., a:b, :]], line(), [Shard(1)])
        parts.append(
            regard.attend_partial(
                *mine, mask=regard.Causal(), summaries=asked, key_start=a, total_keys=9
            )
        )
    found = regard.merge(*parts).finish()
    right = regard.attend(*given, mask=regard.Causal())
    near(found.output, right.output, "output")
    near(found.entropy(), right.entropy(), "entropy")
    near(found.top(3).keys, right.top(3).keys, "keys")


def test_replay_twin_no_gradient_summaries_and_one_head() -> None:
    run(2, _other_ways)


def test_parts_merge() -> None:
    run(2, _parts)


# ── what is refused ──────────────────────────────────────────────────────────────────────────


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


def _compiled() -> None:
    given = [t.detach() for t in tensors()]
    sharded = spread(given, line(), [Shard(1)])

    @torch.compile(backend="aot_eager")
    def entropy(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        a = regard.attend(q, k, v, mask=regard.Causal())
        return a.entropy() + a.lse

    right = regard.attend(*given, mask=regard.Causal())
    near(entropy(*sharded), right.entropy() + right.lse, "compiled")
    near(entropy(*given), right.entropy() + right.lse, "plain tensors, compiled beside DTensors")
    assert isinstance(whole(sharded[0]), Tensor) and isinstance(sharded[0], DTensor)
    dist.barrier()


def test_compiled() -> None:
    run(2, _compiled)
