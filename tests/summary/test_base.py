"""What all summaries share: they are values, and each says how it merges."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.shapes import AttentionShape
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    MaxLogit,
    MaxScore,
    Peak,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
)

# over disjoint sets of keys; column sums, maps and the peak do not merge
MERGE = (Entropy(), Visible(), MaxScore(), MaxLogit(), Concentration(), Distance(), Top(3))
DO_NOT = (Peak(), Received(), Pooled(4))


def test_who_merges() -> None:
    assert all(s.merges for s in MERGE) and not any(s.merges for s in DO_NOT)


@pytest.mark.parametrize("summary", DO_NOT, ids=repr)
def test_what_does_not_merge_is_refused_for_a_part(summary: Summary) -> None:
    x = torch.ones(1, 1, 2, 2)
    with pytest.raises(regard.errors.InputError, match=r"does not merge over keys; take it by rep"):
        regard.attend_partial(x, x, x, summaries=(summary,))


@pytest.mark.parametrize("summary", (*MERGE, *DO_NOT), ids=repr)
def test_equal_parameters_make_equal_summaries(summary: Summary) -> None:
    again = type(summary)(**vars(summary))
    assert again == summary and hash(again) == hash(summary)
    assert {summary: 1}[again] == 1


def test_different_parameters_and_kinds_differ() -> None:
    apart = [
        *MERGE, *DO_NOT, Top(4), Pooled(5), Pooled(4, "max"), Received(3), Received(per="visible"),
        Received(groups="sum"), Received(groups="mean"), Received(slice(3)), Received([3]),
    ]  # fmt: skip
    assert len(set(apart)) == len(apart)


@pytest.mark.parametrize("summary", (*MERGE, *DO_NOT), ids=repr)
def test_they_are_frozen(summary: Summary) -> None:
    with pytest.raises(AttributeError):
        summary.k = 9  # type: ignore[attr-defined]


@pytest.mark.parametrize("summary", (*MERGE, *DO_NOT), ids=repr)
def test_parameters_that_fit_pass_the_check(summary: Summary) -> None:
    assert summary.check(AttentionShape.of((1, 2, 3), (1, 4, 3))) is None


def test_a_summary_needs_a_definition() -> None:
    class Nameless(Summary):
        pass

    with pytest.raises(TypeError, match="define"):
        Nameless()  # type: ignore[abstract]


def test_something_else_is_refused_by_name() -> None:
    x = torch.ones(2, 2)
    with pytest.raises(regard.errors.InputError, match=r"'entropy' is not a summary; give e\.g\."):
        regard.attend(x, x, x, summaries=("entropy",))  # type: ignore[arg-type]
    with pytest.raises(regard.errors.InputError, match=r"is not a summary; give e\.g\."):
        regard.attend(x, x, x).summarize(Entropy)  # type: ignore[arg-type]
