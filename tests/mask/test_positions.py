"""Causal, Window, Prefix: known pictures, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mask.cases import answer
from regard.errors import DTypeError, InputError, ShapeError
from regard.mask import Causal, Extent, Prefix, Verdict, Window


def picture(mask, queries: int, keys: int) -> list[str]:
    seen = answer(mask, Extent(queries, keys)).reshape(queries, keys)
    return ["".join("x" if cell else "." for cell in row) for row in seen]


def test_causal_with_a_cache_ends_at_the_last_key():
    assert picture(Causal(), 2, 4) == ["xxx.", "xxxx"]
    assert picture(Causal("start"), 2, 4) == ["x...", "xx.."]


def test_causal_with_more_queries_than_keys():
    assert picture(Causal(), 4, 2) == ["..", "..", "x.", "xx"]
    assert picture(Causal("start"), 4, 2) == ["x.", "xx", "xx", "xx"]


def test_the_alignments_agree_on_squares():
    assert picture(Causal(), 3, 3) == picture(Causal("start"), 3, 3) == ["x..", "xx.", "xxx"]


def test_causal_start_is_what_torch_calls_is_causal():
    for queries, keys in ((3, 5), (5, 3), (4, 4)):
        expected = np.tril(np.ones((queries, keys), bool))
        np.testing.assert_array_equal(answer(Causal("start"), Extent(queries, keys))[0], expected)


def test_window_counts_the_keys_before_oneself():
    assert picture(Window(1), 4, 4) == ["x...", "xx..", ".xx.", "..xx"]
    assert picture(Window(0), 3, 3) == ["x..", ".x.", "..x"]
    assert picture(Window(1, 1), 3, 3) == ["xx.", "xxx", ".xx"]
    assert picture(Window(None, 1), 3, 3) == ["xx.", "xxx", "xxx"]
    assert picture(Window(0, None), 3, 3) == ["xxx", ".xx", "..x"]
    assert picture(Window(None, None), 2, 3) == ["xxx", "xxx"]


def test_window_with_a_cache():
    assert picture(Window(1), 2, 4) == [".xx.", "..xx"]
    assert picture(Window(1, align="start"), 2, 4) == ["x...", "xx.."]


def test_an_open_window_is_causal():
    for align in ("start", "end"):
        assert picture(Window(None, 0, align), 3, 5) == picture(Causal(align), 3, 5)


def test_prefix_and_the_prefix_language_model():
    assert picture(Prefix(2), 2, 4) == ["xx..", "xx.."]
    assert picture(Causal() | Prefix(2), 4, 4) == ["xx..", "xx..", "xxx.", "xxxx"]
    assert picture(Prefix(0), 1, 3) == ["..."]
    assert picture(Prefix(9), 1, 3) == ["xxx"]


def test_prefix_per_batch_entry():
    seen = answer(Prefix([1, 3]), Extent(1, 4, (2,)))
    np.testing.assert_array_equal(seen[:, 0, 0].sum(-1), [1, 3])
    seen = answer(Prefix(np.array([[1], [2]])), Extent(1, 4, (2, 3)))
    np.testing.assert_array_equal(seen.sum(-1)[..., 0, 0], [[1, 1, 1], [2, 2, 2]])


def test_tiles_of_a_long_causal_problem():
    extent = Extent(100_000, 100_000)
    assert Causal().verdict(range(64), range(64, 128), extent) is Verdict.NONE
    assert Causal().verdict(range(64, 128), range(64), extent) is Verdict.ALL
    assert Causal().verdict(range(64, 128), range(64, 128), extent) is Verdict.SOME
    assert Causal().verdict(range(63, 64), range(64), extent) is Verdict.ALL
    assert Window(128).verdict(range(640, 704), range(512), extent) is Verdict.NONE
    assert Window(128).verdict(range(640, 704), range(513), extent) is Verdict.SOME


def test_a_prefix_with_mixed_lengths_is_mixed():
    extent = Extent(4, 8, (2,))
    mask = Prefix([2, 6])
    assert mask.verdict(range(4), range(2), extent) is Verdict.ALL
    assert mask.verdict(range(4), range(2, 6), extent) is Verdict.SOME
    assert mask.verdict(range(4), range(6, 8), extent) is Verdict.NONE


@pytest.mark.parametrize("bad", [-1, 1.5, "3", True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_window_takes_whole_numbers(side, bad):
    with pytest.raises(InputError, match=rf"Window\({side}=.*whole number ≥ 0, or None"):
        Window(**{"left": 1, side: bad})


def test_a_window_takes_numpys_whole_numbers():
    assert picture(Window(np.int64(1), np.int32(0)), 3, 3) == picture(Window(1), 3, 3)


@pytest.mark.parametrize("make", [Causal, lambda align: Window(1, align=align)])
@pytest.mark.parametrize("bad", ["middle", "", None, 0])
def test_there_are_two_alignments(make, bad):
    with pytest.raises(InputError, match=r"give 'end' .* or 'start'"):
        make(bad)


@pytest.mark.parametrize("bad", [1.5, "2", [1.0, 2.0], np.array([True])])
def test_a_prefix_takes_whole_numbers(bad):
    with pytest.raises(DTypeError, match=r"Prefix\(n\) has dtype .*; give a whole number"):
        Prefix(bad)


def test_a_prefix_must_fit_the_batch():
    extent = Extent(2, 4, (2,))
    Prefix([1, 2]).check(extent)
    Prefix([1]).check(extent)
    for wrong in ([1, 2, 3], [[1, 2]]):
        with pytest.raises(ShapeError, match=r"Prefix\(n\) has shape .* the batch = \(2,\)"):
            Prefix(wrong).check(extent)


def test_masks_of_positions_are_values():
    assert Causal() == Causal("end") != Causal("start")
    assert Window(3) == Window(3, 0) != Window(2)
    assert len({Causal(), Causal("end"), Window(3), Window(3)}) == 2
    assert repr(Window(3, None)) == "Window(left=3, right=None, align='end')"
    assert repr(Prefix([1, 2])) == "Prefix(n=<int64 (2,)>)"
    with pytest.raises(AttributeError):
        Causal().align = "start"


def test_torch_holds_lengths_too():
    mask = Prefix(torch.tensor([1, 3]))
    seen = mask.allows(torch.arange(2), torch.arange(4), Extent(2, 4, (2,)))
    assert seen.sum().item() == 8
    assert repr(mask) == "Prefix(n=<int64 (2,)>)"
