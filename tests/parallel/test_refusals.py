"""What cannot be is refused on every rank, in words that name who differs; no rank waits for one
that gave up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.sequences import attention, refusal
from parallel.world import WORLDS, run
from regard.engine.observers import editing
from regard.errors import UnavailableError
from regard.parallel import Peers, Shards
from regard.parallel.problem import agree
from regard.summary import Entropy, Pooled

WAYS = ("ring", "ulysses", "tree")
ANSWERING = ("ring", "ulysses")
each_way = pytest.mark.parametrize("way", WAYS)
each_answering = pytest.mark.parametrize("way", ANSWERING)


def test_without_a_process_group_it_says_how_to_get_one() -> None:
    q = torch.randn(1, 4, 8)
    with pytest.raises(UnavailableError, match="init_process_group first, or"):
        regard.parallel.ring(q, q, q, shards=Shards.even(4, 1))


def _wrong_groups() -> list[str]:
    mesh = dist.init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))
    given: list[Any] = ["all", mesh, dist.new_group([0])]
    return [refusal(lambda group=group: Peers.of(group)) for group in given]


def test_groups_that_mean_nothing_are_refused() -> None:
    first, second = run(2, _wrong_groups)
    assert first[:2] == second[:2]
    assert "group is a str; give a ProcessGroup" in first[0]
    assert "a DeviceMesh of 2 axes; give one of them" in first[1]
    assert "rank 1 is no member of the group" in second[2]


# ── the call ─────────────────────────────────────────────────────────────────────────────────


def _call(way: str, **changes: Any) -> Callable[[], Any]:
    """A call over 8 tokens a rank, of which changes are made: `query`, `key`, `shards`, options."""
    rank, world = dist.get_rank(), dist.get_world_size()
    given: dict[str, Any] = {"shards": Shards.even(8 * world, world)}
    part = torch.linspace(-1, 1, 64).reshape(2, 8, 4) + (0 if way == "tree" else rank)
    given["query"] = torch.ones(2, 1, 4) if way == "tree" else part
    given |= {"key": part, **changes}
    query, key = given.pop("query"), given.pop("key")
    return lambda: getattr(regard.parallel, way)(query, key, key, **given)


WHOLE = torch.zeros(2, 8, 4, dtype=torch.int64)
WRONG: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "tokens": (lambda: {"key": torch.zeros(2, 5, 4)},
               "key (2, 5, 4) has 5 tokens, the shard of rank 0 has 8"),
    "no tensor": (lambda: {"key": [1.0]}, "key is list; give a tensor"),
    "no shards": (lambda: {"shards": 8}, "is a int; give e.g. regard.parallel.Shards.even(token"),
    "world": (lambda: {"shards": Shards.even(16, 3)}, "shards are of 3 ranks, the group has 2"),
    "two axes": (lambda: {"query": torch.zeros(8, 4)}, "give a tensor (…, heads, tokens, dim)"),
    "numbers": (lambda: {"query": WHOLE, "key": WHOLE}, "query has dtype int64"),
    "mask": (lambda: {"mask": torch.ones(3, 3, dtype=torch.bool)}, "does not broadcast"),
    "documents": (lambda: {"mask": regard.Documents(torch.zeros(8, dtype=torch.int64))},
                  "8 ids for 16 query tokens"),
    "sink": (lambda: {"sink": torch.zeros(3)}, "one number per query head"),
    "bias": (lambda: {"bias": torch.zeros(8, 8)}, "does not broadcast"),
    "learning bias": (lambda: {"bias": regard.ALiBi(torch.rand(2, requires_grad=True)),
                               "implementation": "cpu"}, "no gradient to a bias"),
    "summary": (lambda: {"summaries": ("entropy",)}, "'entropy' is not a summary"),
    "implementation": (lambda: {"implementation": "magic"}, "'magic' does not exist"),
}  # fmt: skip
OF_A_TREE: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "queries": (lambda: {"query": torch.ones(2, 1, 4) + dist.get_rank()},
                "the ranks disagree on queries"),
    "gradient": (lambda: {"query": torch.ones(2, 1, 4, requires_grad=True)},
                 "query wants gradients"),
    "bias": (lambda: {"bias": torch.zeros(16, requires_grad=True)}, "bias wants gradients"),
    "sink": (lambda: {"sink": torch.zeros(2, requires_grad=True)}, "sink wants gradients"),
    "summary": (lambda: {"summaries": (Pooled(4),)}, "does not merge over keys"),
    "tokens": (lambda: {"key": torch.zeros(2, 3, 4)}, "the shard of rank"),
    "world": (lambda: {"shards": Shards.even(16, 5)}, "shards are of 5 ranks, the group has 2"),
}  # fmt: skip


def _wrong(way: str, table: str) -> dict[str, str]:
    """What each wrong call came to, and one that is right."""
    calls = {name: make() for name, (make, _) in globals()[table].items()}
    messages = {name: refusal(_call(way, **given)) for name, given in calls.items()}
    with editing(object()):  # type: ignore[arg-type]
        messages["editing"] = refusal(_call(way))
    return messages | {"right": refusal(_call(way))}


@each_way
def test_wrong_calls_are_refused_on_every_rank(way: str) -> None:
    """And leave nothing behind: the next one is answered."""
    table = "OF_A_TREE" if way == "tree" else "WRONG"
    for rank, messages in enumerate(run(2, _wrong, way, table)):
        assert messages.pop("right") == "answered"
        for part in ("attention is being changed", "regard.knock_out"):
            assert part in messages["editing"]
        for name, (_, words) in globals()[table].items():
            words = words.replace("rank 0 has", f"rank {rank} has")
            assert words in messages[name], (way, name)


def _broken_rule(way: str) -> str:
    def rule(i: Any, j: Any) -> Any:
        if dist.get_rank() == 1:
            raise ValueError("this rule is broken")
        return i >= j

    return refusal(_call(way, mask=regard.Rule(rule)))


def _one_is_wrong(way: str) -> str:
    size = 5 if dist.get_rank() == 1 else 24
    return refusal(_call(way, mask=regard.Padding(torch.ones(size, dtype=torch.bool))))


@each_way
@pytest.mark.parametrize("how", [_broken_rule, _one_is_wrong])
def test_an_error_on_one_rank_ends_all(how: Callable[[str], str], way: str) -> None:
    """Also one of the caller's own code."""
    messages = run(3, how, way)
    words = "ValueError: this rule is broken" if how is _broken_rule else "5 "
    assert words in messages[1]
    assert "rank 1 could not take what was given there" in messages[0] == messages[2]


def _different_ways() -> str:
    return refusal(_call(WAYS[dist.get_rank()]))


def test_ranks_that_go_different_ways_find_out() -> None:
    for rank, message in enumerate(run(3, _different_ways)):
        assert "the ranks disagree on what to do: ranks 1, 2 differs from rank 0" in message
        assert f"rank {rank} has {WAYS[rank]}" in message


# ── agreement of ranks ───────────────────────────────────────────────────────────────────────

DIFFERING: dict[str, tuple[str, Callable[[torch.Tensor, int], dict[str, Any]]]] = {
    "mask": ("mask", lambda q, n: {"mask": regard.Causal()}),
    "mask values": ("mask", lambda q, n: {"mask": regard.Padding([n - 1])}),
    "scale": ("score rule", lambda q, n: {"scale": 2.0}),
    "dtype": ("shapes and dtypes", lambda q, n: {"query": q.double(), "key": q.double()}),
    "heads": ("shapes and dtypes", lambda q, n: {"query": q.repeat(1, 2, 1, 1)}),
    "summaries": ("summaries", lambda q, n: {"summaries": (Entropy(),)}),
    "gradients": ("who needs gradients", lambda q, n: {"query": q.clone().requires_grad_()}),
    "shards": ("shards", lambda q, n: {"shards": Shards.zigzag(n, n // 8)}),
}


def _differing(way: str, odd: int) -> dict[str, str]:
    """The error of a call in which one rank means something else, for each of the ways to."""
    rank, tokens = dist.get_rank(), 8 * dist.get_world_size()
    q = torch.linspace(-1, 1, 64).reshape(1, 2, 8, 4)
    alike = {"query": q, "key": q, "mask": regard.Padding([tokens])}
    messages = {"nothing": refusal(_call(way, **alike))}
    for name, (_, change) in DIFFERING.items():
        mine = alike | (change(q, tokens) if rank == odd else {})
        messages[name] = refusal(_call(way, **mine))
    return messages


@each_answering
def test_the_rank_that_differs_is_named_on_every_rank(way: str) -> None:
    for rank, messages in enumerate(run(3, _differing, way, 1)):
        assert messages.pop("nothing") == "answered"
        for name, message in messages.items():
            subject = DIFFERING[name][0]
            assert f"the ranks disagree on {subject}: rank 1 differs from rank 0" in message
            assert f"rank {rank} has" in message


def _majority() -> list[str]:
    peers, device, rank = Peers.of(), torch.device("cpu"), dist.get_rank()
    agree(peers, {"one": "a", "two": "b"}, device)
    differing: list[dict[str, str]] = [
        {"one": "a", "two": str(rank)}, {"one": str(rank == 0), "two": "b"},
    ]  # fmt: skip
    messages = [refusal(lambda words=words: agree(peers, words, device)) for words in differing]
    return [message.partition(": ")[2].partition(";")[0] for message in messages]


@pytest.mark.parametrize("world", WORLDS)
def test_the_majority_is_right_and_ties_go_to_the_first(world: int) -> None:
    others = ", ".join(str(rank) for rank in range(1, world))
    word = "ranks" if world > 2 else "rank"
    differing = f"the ranks disagree on two: {word} {others} differs from rank 0"
    lonely = f"the ranks disagree on one: rank {int(world == 2)} differs from rank "
    lonely += str(1 if world > 2 else 0)
    right = ["", ""] if world == 1 else [differing, lonely]
    assert run(world, _majority) == [right] * world


# ── the whole problem seen from blocks ───────────────────────────────────────────────────────


# ── later questions ──────────────────────────────────────────────────────────────────────────


def _later(way: str) -> dict[str, str]:
    """Each is followed by one that all ranks ask alike."""
    a, (_, key, _) = attention(way, "causal", torch.float32, summaries=(regard.MaxScore(),))
    rank, messages = dist.get_rank(), dict[str, str]()

    def ask(name: str, question: Callable[[], Any]) -> None:
        messages[name] = refusal(question)
        assert refusal(a.peak) == "answered", name

    ask("other words", lambda: a.top(2 + rank))
    ask("no summary", lambda: a.summarize("entropy"))
    ask("no summary on one", lambda: a.summarize("entropy" if rank == 1 else Entropy()))
    ask("no query", lambda: a.received([99]))
    ask("weighted", lambda: a.received(weighted_by=torch.ones(a.shape[-1])))
    order = [a.entropy, a.received, a.pooled]
    for n, question in enumerate(reversed(order) if rank == 1 else order):
        messages[f"order {n}"] = refusal(question)
    if rank == 1:
        key.add_(1)
    messages["stale"] = refusal(lambda: a.received(7))
    # what is known is not sent again, so each rank answers by itself
    messages["known"] = refusal(a.max_score)
    return messages


@each_answering
def test_questions_that_differ_or_cannot_be_end_on_all_ranks(way: str) -> None:
    for rank, messages in enumerate(run(3, _later, way)):
        differs = "the ranks disagree on what to do"
        assert f"{differs}: ranks 1, 2 differs from rank 0" in messages["other words"]
        assert f"rank {rank} has answer (Top(k={2 + rank})" in messages["other words"]
        assert "'entropy' is not a summary" in messages["no summary"]
        own = "'entropy' is not a summary" if rank == 1 else "rank 1 could not take what was given"
        assert own in messages["no summary on one"]
        assert "query 99 does not exist" in messages["no query"]
        assert "weighted" in messages["weighted"].lower()
        # in the middle of both orders stands the same, and ranks are in step again
        assert f"{differs}: rank 1 differs from rank 0" in messages["order 0"]
        assert f"{differs}: rank 1 differs from rank 0" in messages["order 2"]
        assert messages["order 1"] == "answered"
        if way == "ring":  # of whose keys nobody has a copy
            assert ("StaleError" if rank == 1 else "rank 1 could not take") in messages["stale"]
            assert ("StaleError" if rank == 1 else "answered") in messages["known"]


def _without_gradient(way: str) -> None:
    a, _ = attention(way, "causal", torch.float32, gradients=True)
    values = [a.pooled(8), a.max_score(), a.summarize(regard.Offsets())[regard.Offsets()]]
    if way == "ring":
        values += [a.top(2).weights, a.peak().weights, a.received()]
    for value in values:
        with pytest.raises(regard.errors.GradientError, match="has no gradient"):
            value.sum().backward()
    with torch.no_grad():
        b, _ = attention(way, "causal", torch.float32, gradients=True)
    c, _ = attention(way, "causal", torch.float32)
    answers = (b.output, b.lse, b.entropy(), c.output, c.top(1).weights)
    assert not any(t.requires_grad for t in answers)  # no graph where none was wanted


@each_answering
def test_what_has_no_gradient_says_so(way: str) -> None:
    run(2, _without_gradient, way)
