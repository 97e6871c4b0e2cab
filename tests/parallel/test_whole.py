"""Rules of the whole sequence, seen from blocks: what they hide, and who computes."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.sequences import ring_of
from parallel.world import run
from regard.errors import UnavailableError
from regard.mask import Verdict
from regard.parallel import Piece, Shards, whole
from regard.parallel.whole import Whole

NO_RULE = (None, None, None, None)


def _whole(mask: Any = None, rule: Any = NO_RULE, implementation: str | None = None) -> Whole:
    q, k = torch.zeros(2, 4, 8, 16), torch.zeros(2, 2, 8, 16)
    return Whole.of(q, k, k, 32, mask, rule, (), implementation)


def test_the_shape_is_that_of_the_whole() -> None:
    found = _whole()
    assert (found.tokens, found.shape.queries, found.shape.query_heads) == (32, 32, 4)
    assert found.score.scale == 0.25


def test_verdicts_speak_of_places_in_the_whole_sequence() -> None:
    causal = _whole(regard.Causal())
    early, late = Piece(0, 8), Piece(24, 32)
    assert causal.verdict(early, late) is Verdict.NONE
    assert causal.verdict(late, early) is Verdict.ALL
    assert causal.verdict(late, late) is Verdict.SOME
    assert _whole().verdict(early, late) is Verdict.ALL
    lengths = _whole(regard.Padding([8, 8]))
    assert lengths.verdict(early, late) is Verdict.NONE


def _blocks(kind: str) -> int:
    """How many blocks this rank computes under a causal mask."""
    shards = Shards.even(32, 4) if kind == "even" else Shards.zigzag(32, 4)
    q = torch.randn(1, 8, 4)
    with patch.object(whole, "attend_partial", wraps=whole.attend_partial) as counted:
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
    assert _whole(rule=(None, None, regard.ALiBi(fixed), None)).sweeps == "cpu"
    assert _whole(rule=(None, None, regard.ALiBi(learning), None)).sweeps == "tiled"
    assert _whole(implementation="tiled").sweeps == "tiled"
    assert _whole(implementation="dense").sweeps == "cpu"
    with pytest.raises(UnavailableError, match="no gradient to a bias"):
        _whole(rule=(None, None, regard.ALiBi(learning), None), implementation="cpu")


def test_rules_that_do_not_fit_the_whole_are_refused() -> None:
    with pytest.raises(regard.errors.ShapeError, match="8 ids for 32 query tokens"):
        _whole(regard.Documents(torch.zeros(8, dtype=torch.int64)))
    with pytest.raises(regard.errors.ShapeError, match="one number per query head"):
        _whole(rule=(None, None, None, torch.zeros(2)))
    with pytest.raises(regard.errors.ShapeError, match="does not broadcast"):
        _whole(rule=(None, None, torch.zeros(8, 8), None))


def _marks() -> torch.Tensor:
    """A statistic that holds a number for every token of the whole sequence."""
    ids = torch.arange(61) % 5
    a, _ = ring_of(
        "causal", torch.float64, "zigzag", summaries=(match := regard.Matching(ids, ids),)
    )
    return a.summarize(match)[match]


def test_marks_of_tokens_are_those_of_the_whole() -> None:
    from parallel.test_forward import right_of

    right, ids = right_of("causal", torch.float64), torch.arange(61) % 5
    shards = Shards.zigzag(61, 3)
    exact = regard.Matching(ids, ids).define(right.exact, right.call.shape)
    torch.testing.assert_close(shards.join(run(3, _marks), -1), exact)
