"""Mass on earlier keys that carry the query's mark."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.errors import DTypeError, GradientError, ShapeError
from regard.summary import Matching

TEXT = torch.tensor([3, 5, 3, 5, 3, 9])


def attended(**options: object) -> regard.Attention:
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 6, 4, generator=dice) for _ in range(3))
    return regard.attend(q, k, v, mask=regard.Causal(), **options)


def test_copies_of_a_token_and_what_followed_them() -> None:
    a = attended()
    after = torch.cat([torch.tensor([-1]), TEXT[:-1]])
    copies, prefix = Matching(TEXT, TEXT), Matching(TEXT, after)
    found = a.summarize(copies, prefix)
    w = a.dense()
    # row 4 is the third 3: copies at 0 and 2, followed by 1 and 3
    assert torch.allclose(found[copies][:, 4], w[:, 4, 0] + w[:, 4, 2])
    assert torch.allclose(found[prefix][:, 4], w[:, 4, 1] + w[:, 4, 3])
    assert (found[copies][:, [0, 1, 5]] == 0).all()  # no earlier copy; never oneself


def test_forward_and_afterwards_agree() -> None:
    match = Matching(TEXT, TEXT)
    during = attended(summaries=(match,)).summarize(match)[match]
    assert torch.equal(during, attended().summarize(match)[match])


def test_marks_of_any_size() -> None:
    large = TEXT.long() * 2**40
    small, big = Matching(TEXT, TEXT), Matching(large, large)
    found = attended().summarize(small, big)
    assert torch.equal(found[small], found[big])
    other = Matching(large, large + 2**32)  # equal in their lower half only
    assert (attended().summarize(other)[other] == 0).all()


def test_more_marks_than_fit_one_sweep() -> None:
    marks = [Matching(TEXT % n, TEXT % n) for n in range(1, 8)]
    found = attended().summarize(*marks)
    each = [attended().summarize(m)[m] for m in marks]
    assert all(torch.equal(found[m], one) for m, one in zip(marks, each, strict=True))


def test_a_decoding_step_stands_at_the_end() -> None:
    q, k = torch.randn(1, 1, 4), torch.randn(1, 6, 4)
    match = Matching(torch.tensor([3]), TEXT)
    a = regard.replay(q, k)
    assert torch.allclose(a.summarize(match)[match][0, 0], a.dense()[0, 0, [0, 2, 4]].sum())


def test_parts_of_the_keys_merge() -> None:
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 6, 4, generator=dice) for _ in range(3))
    whole = Matching(TEXT, TEXT)
    truth = regard.attend(q, k, v, summaries=(whole,)).summarize(whole)[whole]
    masses = []
    for start, stop in ((0, 2), (2, 6)):
        part = Matching(TEXT, TEXT[start:stop])
        one = regard.attend_partial(
            q, k[:, start:stop], v[:, start:stop], key_start=start, total_keys=6, summaries=(part,)
        )
        masses.append((one.lse, one.summaries[part]))
    lse = torch.logaddexp(masses[0][0], masses[1][0])
    merged = sum(torch.exp(own - lse) * mass for own, mass in masses)
    assert torch.allclose(merged, truth, atol=1e-6)


def test_what_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"query_marks.*float32.*whole numbers"):
        Matching(torch.zeros(3), TEXT)
    with pytest.raises(ShapeError, match=r"key_marks.*\(3,\).*\(6,\)"):
        short = Matching(TEXT, TEXT[:3])
        attended().summarize(short)
    q = torch.randn(2, 6, 4, requires_grad=True)
    match = Matching(TEXT, TEXT)
    mass = regard.attend(q, q, q).summarize(match)[match]
    with pytest.raises(GradientError, match="Matching"):
        mass.sum().backward()
