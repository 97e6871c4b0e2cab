"""The whole problem seen from blocks; what ranks check, compare and answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.sequences import TOKENS, case_named, my_part, right_of, ring_of, shards_of
from parallel.world import WORLDS, run
from regard.engine.observers import editing
from regard.errors import InputError, RegardError, ShapeError, UnavailableError
from regard.mask import Verdict
from regard.parallel import HeadwiseAttention, Peers, Piece, RingAttention, Shards, problem
from regard.parallel.problem import ShardedProblem, agree, check_held, contents
from regard.summary import Offsets

WAYS = ("ring", "ulysses", "tree")
ANSWERING = ("ring", "ulysses")


def _problem(
    mask: Any = None,
    score: Any = (None, None, None, None),
    implementation: str | None = None,
) -> ShardedProblem:
    q, k = torch.zeros(2, 4, 8, 16), torch.zeros(2, 2, 8, 16)
    peers, shards = Peers(None, 0, 4), Shards.even(32, 4)
    return ShardedProblem.of(peers, shards, (q, k, k), mask, score, (), implementation)


def test_the_shape_is_that_of_the_problem() -> None:
    found = _problem()
    assert (found.tokens, found.shape.queries, found.shape.query_heads) == (32, 32, 4)
    assert found.score.scale == 0.25


def test_verdicts_are_about_places_in_the_whole_sequence() -> None:
    causal = _problem(regard.Causal())
    early, late = Piece(0, 8), Piece(24, 32)
    assert causal.verdict(early, late) is Verdict.NONE
    assert causal.verdict(late, early) is Verdict.ALL
    assert causal.verdict(late, late) is Verdict.SOME
    assert _problem().verdict(early, late) is Verdict.ALL
    lengths = _problem(regard.Padding([8, 8]))
    assert lengths.verdict(early, late) is Verdict.NONE


def _blocks(kind: str) -> int:
    """How many blocks this rank computes under a causal mask."""
    shards = Shards.even(32, 4) if kind == "even" else Shards.zigzag(32, 4)
    q = torch.randn(1, 8, 4)
    with patch.object(problem, "attend_partial", wraps=problem.attend_partial) as counted:
        regard.parallel.ring(q, q, q, shards=shards, mask=regard.Causal())
    return sum(call.args[0].shape[-2] > 0 for call in counted.call_args_list)


def test_hidden_blocks_are_left_out_and_zigzag_shares_the_work() -> None:
    assert run(4, _blocks, "even") == [1, 2, 3, 4]
    # two pieces of four tokens each; those of the last rank are neighbours, hence one of eight
    assert run(4, _blocks, "zigzag") == [8, 8, 8, 4]


def _only_key_heads_travel() -> list[tuple[int, ...]]:
    sent: list[tuple[int, ...]] = []
    real = dist.batch_isend_irecv

    def spy(ops: list[dist.P2POp]) -> Any:
        sent.extend(tuple(op.tensor.shape) for op in ops if op.op is dist.isend)
        return real(ops)

    with patch.object(dist, "batch_isend_irecv", spy):
        ring_of("one key head", torch.float32, "even", check=False)
    return sent


def test_only_key_heads_travel() -> None:
    first, second = run(2, _only_key_heads_travel)
    assert first == [(2, 1, 31, 16)] * 2
    assert second == [(2, 1, 30, 16)] * 2


def test_who_sweeps_is_settled_with_the_gradients_in_mind() -> None:
    fixed, learning = torch.rand(4), torch.rand(4, requires_grad=True)
    assert _problem(score=(None, None, regard.ALiBi(fixed), None)).sweeps == "cpu"
    assert _problem(score=(None, None, regard.ALiBi(learning), None)).sweeps == "tiled"
    assert _problem(implementation="tiled").sweeps == "tiled"
    assert _problem(implementation="dense").sweeps == "cpu"
    with pytest.raises(UnavailableError, match="no gradient to a bias"):
        _problem(score=(None, None, regard.ALiBi(learning), None), implementation="cpu")


def test_rules_that_do_not_fit_the_whole_are_refused() -> None:
    with pytest.raises(ShapeError, match="8 ids for 32 query tokens"):
        _problem(regard.Documents(torch.zeros(8, dtype=torch.int64)))
    with pytest.raises(ShapeError, match="one number per query head"):
        _problem(score=(None, None, None, torch.zeros(2)))
    with pytest.raises(ShapeError, match="does not broadcast"):
        _problem(score=(None, None, torch.zeros(8, 8), None))


def _marks() -> torch.Tensor:
    """A statistic that holds a number for every token of the whole sequence."""
    ids = torch.arange(61) % 5
    a, _ = ring_of(
        "causal", torch.float64, "zigzag", summaries=(match := regard.Matching(ids, ids),)
    )
    return a.summarize(match)[match]


def test_marks_of_tokens_are_those_of_the_problem() -> None:
    right, ids = right_of("causal", torch.float64), torch.arange(61) % 5
    shards = Shards.zigzag(61, 3)
    exact = regard.Matching(ids, ids).define(right.exact, right.call.shape)
    torch.testing.assert_close(shards.join(run(3, _marks), -1), exact)


# ── opening ──────────────────────────────────────────────────────────────────────────────────


def _part() -> tuple[torch.Tensor, Shards]:
    world = dist.get_world_size()
    return torch.randn(2, 4, 8), Shards.even(4 * world, world)


def _called(way: str, **options: Any) -> str:
    part, shards = _part()
    query = torch.ones(2, 1, 8) if way == "tree" else part
    try:
        getattr(regard.parallel, way)(query, part, part, shards=shards, **options)
    except (RegardError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "taken"


def _broken_rule(way: str) -> str:
    def rule(i: Any, j: Any) -> Any:
        if dist.get_rank() == 1:
            raise ValueError("this rule is broken")
        return i >= j

    return _called(way, mask=regard.Rule(rule))


@pytest.mark.parametrize("way", WAYS)
def test_an_error_of_the_callers_own_code_ends_all_ranks(way: str) -> None:
    results = run(3, _broken_rule, way)
    assert results[1] == "ValueError: this rule is broken"
    assert "rank 1 could not take what was given there" in results[0] == results[2]


def _different_ways() -> str:
    return _called(WAYS[dist.get_rank()])


def test_ranks_that_go_different_ways_find_out() -> None:
    for rank, message in enumerate(run(3, _different_ways)):
        assert "the ranks disagree on what to do: ranks 1, 2 differs from rank 0" in message
        assert f"rank {rank} has {WAYS[rank]}" in message


def _changed(way: str) -> str:
    with editing(object()):  # type: ignore[arg-type]
        return _called(way)


@pytest.mark.parametrize("way", WAYS)
def test_attention_that_is_being_changed_is_refused(way: str) -> None:
    assert all("attention is being changed" in message for message in run(2, _changed, way))


def test_what_a_rank_holds() -> None:
    shards = Shards.contiguous([3, 5])
    check_held("key", torch.zeros(2, 5, 4), shards, 1)
    with pytest.raises(ShapeError, match=r"key \(2, 5, 4\) has 5 tokens, the shard of rank 0 has"):
        check_held("key", torch.zeros(2, 5, 4), shards, 0)
    with pytest.raises(ShapeError, match=r"key is list; give a tensor"):
        check_held("key", [1.0], shards, 0)


# ── agreement of ranks ───────────────────────────────────────────────────────────────────────


def _differing(odd: int, what: str) -> str:
    """The error of a ring in which one rank means something else."""
    rank, world = dist.get_rank(), dist.get_world_size()
    shards, options, heads, dtype = Shards.even(12, world), {}, 2, torch.float32
    mine: dict[str, Any] = {"mask": regard.Padding([9])}
    if rank == odd:
        if what == "mask values":
            mine = {"mask": regard.Padding([8])}
        elif what == "mask":
            mine = {"mask": regard.Causal()}
        elif what == "scale":
            options = {"scale": 2.0}
        elif what == "dtype":
            dtype = torch.float64
        elif what == "heads":
            heads = 4
        elif what == "summaries":
            options = {"summaries": (regard.Entropy(),)}
    q = torch.zeros(1, heads, shards.lengths[rank], 8, dtype=dtype)
    q.requires_grad_(rank == odd and what == "gradients")
    try:
        regard.parallel.ring(q, q, q, shards=shards, **mine, **options)
    except RegardError as error:
        return f"{type(error).__name__}: {error}"
    return "none"


@pytest.mark.parametrize(
    ("what", "subject"),
    [
        ("mask", "mask"), ("mask values", "mask"), ("scale", "score rule"),
        ("dtype", "shapes and dtypes"), ("heads", "shapes and dtypes"),
        ("summaries", "summaries"), ("gradients", "who needs gradients"),
    ],
)  # fmt: skip
def test_the_rank_that_differs_is_named_on_every_rank(what: str, subject: str) -> None:
    for rank, message in enumerate(run(3, _differing, 1, what)):
        assert f"the ranks disagree on {subject}: rank 1 differs from rank 0" in message
        assert f"rank {rank} has" in message


def test_shards_that_differ() -> None:
    messages = run(4, _unlike_shards)
    assert all(
        "the ranks disagree on shards: rank 2 differs from rank 0" in one for one in messages
    )


def _unlike_shards() -> str:
    rank = dist.get_rank()
    shards = Shards.zigzag(16, 4) if rank == 2 else Shards.even(16, 4)
    q = torch.zeros(1, 4, 8)
    try:
        regard.parallel.ring(q, q, q, shards=shards)
    except InputError as error:
        return str(error)
    return "none"


def test_agreement_is_silent() -> None:
    assert run(3, _differing, 1, "nothing") == ["none"] * 3


def _one_is_wrong() -> str:
    """What one rank cannot take reaches the others, so that they do not wait for it."""
    rank = dist.get_rank()
    q = torch.zeros(1, 4, 8)
    mask = regard.Documents(torch.zeros(5 if rank == 1 else 12, dtype=torch.int64))
    try:
        regard.parallel.ring(q, q, q, shards=Shards.even(12, 3), mask=mask)
    except InputError as error:
        return str(error)
    return "none"


def test_an_error_on_one_rank_ends_all() -> None:
    messages = run(3, _one_is_wrong)
    assert "5 ids for 12 query tokens" in messages[1]
    assert messages[0] == messages[2]
    assert "rank 1 could not take what was given there" in messages[0]


def _alone(world: int) -> list[str]:
    peers, device = Peers.of(), torch.device("cpu")
    agree(peers, {"one": "a", "two": "b"}, device)
    messages = []
    rank = dist.get_rank()
    for words in ({"one": "a", "two": str(rank)}, {"one": str(rank == 0), "two": "b"}):
        try:
            agree(peers, words, device)
        except InputError as error:
            messages.append(str(error).partition(";")[0])
    return messages


@pytest.mark.parametrize("world", WORLDS)
def test_the_majority_is_right_and_ties_go_to_the_first(world: int) -> None:
    others = ", ".join(str(rank) for rank in range(1, world))
    word = "ranks" if world > 2 else "rank"
    differing = f"the ranks disagree on two: {word} {others} differs from rank 0"
    lonely = f"the ranks disagree on one: rank {int(world == 2)} differs from rank "
    lonely += str(1 if world > 2 else 0)
    for messages in run(world, _alone, world):
        assert messages == ([] if world == 1 else [differing, lonely])


def test_contents_tell_values_apart() -> None:
    a, b = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    assert contents([a]) == contents([a.clone()])
    assert contents([a]) != contents([b])
    assert contents([a]) != contents([a.float()])
    assert contents([torch.tensor(3)]) != contents([torch.tensor(4)])
    assert contents([torch.zeros(0)]) == contents([torch.zeros(0)])
    assert contents([torch.tensor([True, False])]) != contents([torch.tensor([True, True])])


# ── later questions ──────────────────────────────────────────────────────────────────────────


def _attention(way: str, **options: Any) -> tuple[Any, list[torch.Tensor]]:
    inputs = case_named("causal").inputs(torch.float32)
    parts = my_part(inputs, shards_of("zigzag", TOKENS, dist.get_world_size()))
    options |= {"shards": shards_of("zigzag", TOKENS, dist.get_world_size())}
    return getattr(regard.parallel, way)(*parts, **options, **inputs.options), parts


def _outcome(ask: Callable[[], Any]) -> str:
    try:
        ask()
    except RegardError as error:
        return f"{type(error).__name__}: {error}"
    return "answered"


def _in_another_order(way: str) -> list[str]:
    """What each question came to, and then one that all ranks ask alike."""
    a, _ = _attention(way)
    questions = [a.entropy, a.received, a.pooled]
    if dist.get_rank() == 1:
        questions.reverse()
    return [_outcome(ask) for ask in (*questions, a.peak)]


@pytest.mark.parametrize("way", ANSWERING)
def test_ranks_that_ask_in_another_order_all_get_an_error(way: str) -> None:
    for messages in run(3, _in_another_order, way):
        for one in (messages[0], messages[2]):
            assert "the ranks disagree on what to do: rank 1 differs from rank 0" in one
        # in the middle of both orders stands the same, and ranks are in step again
        assert messages[1] == messages[3] == "answered"


def _with_other_words(way: str) -> str:
    a, _ = _attention(way)
    return _outcome(lambda: a.top(2 + dist.get_rank()))


@pytest.mark.parametrize("way", ANSWERING)
def test_ranks_that_ask_with_other_words_all_get_an_error(way: str) -> None:
    for rank, message in enumerate(run(2, _with_other_words, way)):
        assert "the ranks disagree on what to do: rank 1 differs from rank 0" in message
        assert f"rank {rank} has answer (Top(k={2 + rank})" in message


def _one_cannot(way: str) -> list[str]:
    a, _ = _attention(way)
    no_summary: Any = "entropy"
    asked = no_summary if dist.get_rank() == 1 else regard.Entropy()
    return [_outcome(lambda: a.summarize(asked)), _outcome(a.entropy)]


@pytest.mark.parametrize("way", ANSWERING)
def test_a_question_that_one_rank_cannot_take_ends_on_all(way: str) -> None:
    results = run(3, _one_cannot, way)
    assert "'entropy' is not a summary" in results[1][0]
    assert "rank 1 could not take what was given there" in results[0][0] == results[2][0]
    assert all(messages[1] == "answered" for messages in results)


def _one_is_stale() -> list[str]:
    a, (_, key, _) = _attention("ring", summaries=(regard.Entropy(),))
    if dist.get_rank() == 1:
        key.add_(1)
    # what is known is not sent again, so each rank answers by itself
    return [_outcome(a.received), _outcome(a.entropy)]


def test_keys_changed_on_one_rank_reach_all() -> None:
    results = run(2, _one_is_stale)
    assert results[1][0].startswith("StaleError") and results[1][1].startswith("StaleError")
    assert "rank 1 could not take what was given there" in results[0][0]
    assert results[0][1] == "answered"


def _unchecked(way: str) -> list[torch.Tensor]:
    found = []
    for check in (True, False):
        a, _ = _attention(way, check=check)
        found += [a.entropy(), a.received(), a.summarize(Offsets())[Offsets()]]
    return found


@pytest.mark.parametrize("way", ANSWERING)
def test_without_the_check_the_answers_are_the_same(way: str) -> None:
    for found in run(2, _unchecked, way):
        for checked, unchecked in zip(found[:3], found[3:], strict=True):
            assert torch.equal(checked, unchecked)


def _held(way: str) -> bool:
    """Values are not needed for questions: whoever asks later does not keep them."""
    a, (_, _, value) = _attention(way)
    assert isinstance(a, RingAttention | HeadwiseAttention)
    kept = [held for held in vars(a).values() if isinstance(held, torch.Tensor)]
    return any(held is value for held in kept)


@pytest.mark.parametrize("way", ANSWERING)
def test_values_are_let_go(way: str) -> None:
    assert run(2, _held, way) == [False, False]
