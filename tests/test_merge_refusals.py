"""What cannot be merged or finished is said in one line."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.errors import DTypeError, InputError, ShapeError
from regard.mask import Extent
from regard.state import Partial
from test_state import random_problem


def test_nothing_cannot_be_merged():
    with pytest.raises(InputError, match="needs at least one Partial"):
        regard.merge()


@pytest.mark.parametrize(("given", "kind"), [(3, "int"), (None, "NoneType"), ([], "list")])
def test_only_partials_merge(given: Any, kind: str) -> None:
    part = Partial(torch.zeros(1, 2, 3), torch.zeros(1, 2))
    for parts in ((given,), (part, given), (given, part)):
        with pytest.raises(
            DTypeError, match=rf"merge: a {kind} was given; give Partials.*merge\(a"
        ):
            regard.merge(*parts)


def test_parts_must_be_of_the_same_queries():
    problem = random_problem(Extent(3, 4), 1, {})
    upper, lower = (problem.part("cpu", (0, 4), rows) for rows in ((0, 1), (1, 3)))
    with pytest.raises(ShapeError, match=r"\(1, 1, 3\) and \(1, 2, 3\); all parts must be of the"):
        regard.merge(upper, lower)


def test_parts_must_have_the_same_summaries():
    q = torch.randn(2, 4)
    a = regard.attend_partial(q, q, q, summaries=(regard.Entropy(), regard.Top(2)))
    b = regard.attend_partial(q, q, q, summaries=(regard.Entropy(), regard.Top(3)))
    with pytest.raises(InputError, match=r"only some of the parts have Top\(k=2\), Top\(k=3\)"):
        regard.merge(a, b)


def test_a_summary_that_was_not_asked_for_is_an_error_that_says_which_were():
    q = torch.randn(2, 4)
    found = regard.attend_partial(q, q, q, summaries=(regard.Entropy(),)).finish()
    with pytest.raises(InputError, match=r"Distance\(\) was not asked.*asked were: Entropy\(\)"):
        found[regard.Distance()]
    with pytest.raises(InputError, match="asked were: none"):
        regard.attend_partial(q, q, q).finish()[regard.Distance()]


def test_a_sink_must_have_one_number_per_head():
    part = random_problem(Extent(3, 4, (2,), 2), 2, {}).part("cpu", (0, 4))
    with pytest.raises(ShapeError, match=r"sink has shape \(3,\); give one number per.*\(2,\)"):
        part.finish(torch.zeros(3))
