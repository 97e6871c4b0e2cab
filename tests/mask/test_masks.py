"""The kinds of masks: known pictures, values, what they declare, and what is refused."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import pytest
import torch

import regard
from mask.cases import answer
from regard.errors import DTypeError, InputError, ShapeError
from regard.mask import (
    Causal,
    Documents,
    Extent,
    Intervals,
    Mask,
    Padding,
    Part,
    Prefix,
    Rule,
    Table,
    Verdict,
    Window,
    array,
)

EYE, LOWER = np.eye(3, dtype=bool), np.tril(np.ones((3, 3), bool))
SQUARE, BATCH = Extent(3, 3), Extent(2, 3, (2,))
NONE, SOME, ALL = Verdict.NONE, Verdict.SOME, Verdict.ALL


class Near(Mask):
    """A window by another name."""

    steps: int

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return Window(self.steps).allows(i, j, extent)

    def as_window(self) -> Window:
        return Window(self.steps)


class Everything(Mask):
    """A mask with the least that one must define."""

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return (i == i)[:, None] & (j == j)[None, :]


class Reach(Mask):
    """An array of its own, by entry and head."""

    limit: Any = array("heads")

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return abs(i[:, None] - j) <= self.limit[..., None, None]


@pytest.mark.parametrize(
    ("mask", "keys", "rows"),
    [
        (Causal(), 4, "xxx. xxxx"),
        (Causal("start"), 4, "x... xx.."),
        (Causal(), 2, ".. .. x. xx"),
        (Causal("start"), 2, "x. xx xx xx"),
        (Window(1), 4, "x... xx.. .xx. ..xx"),
        (Window(1), 4, ".xx. ..xx"),
        (Window(1, align="start"), 4, "x... xx.."),
        (Window(0), 3, "x.. .x. ..x"),
        (Window(np.int64(1), np.int32(1)), 3, "xx. xxx .xx"),
        (Window(None, 1), 3, "xx. xxx xxx"),
        (Window(0, None), 3, "xxx .xx ..x"),
        (Window(None, None), 3, "xxx xxx"),
        (Prefix(2), 4, "xx.. xx.."),
        (Prefix(0) | Prefix(9), 3, "xxx"),
        (Causal() | Prefix(2), 4, "xx.. xx.. xxx. xxxx"),  # a prefix language model
        (Causal() & Documents([0, 0, 1, 1]), 4, "x... xx.. ..x. ..xx"),
        (Documents([5, 7], [7, 5, 5]), 3, ".xx x.."),
        (Padding(np.array([True, False, True])), 3, "x.x"),
        (Padding(4, 1), 4, "xxxx ...."),
        (Intervals([0, 2, 1], [3, 2, 9]), 4, "xxx. .... .xxx"),
        (Table(np.array(True)), 2, "xx xx"),
        (Table(np.array([[True], [False]])), 2, "xx .."),
        (Rule(lambda i, j: (i - j) % 2 == 0), 4, "x.x. .x.x"),
        (Causal() & Everything(), 3, "x.. xx. xxx"),
    ],
    ids=lambda value: repr(value).split("<function")[0],
)
def test_known_pictures(mask, keys, rows):
    seen = answer(mask, Extent(len(rows.split()), keys))[0]
    assert " ".join("".join("x" if cell else "." for cell in row) for row in seen) == rows


def test_lengths_by_entry_and_flags_are_the_same():
    extent = Extent(2, 4, (2,))
    lengths, flags = Padding([1, 3]), Padding(np.arange(4) < np.array([[1], [3]]))
    for mask in (lengths, flags, Prefix([1, 3]), Prefix(torch.tensor([1, 3])).map(np.asarray)):
        assert answer(mask, extent)[:, 0].sum(-1).tolist() == [[1, 1], [3, 3]]
    of_queries = answer(Padding(keys=4, queries=[1, 2]), extent)
    assert of_queries[:, 0].sum(-1).tolist() == [[4, 0], [4, 4]]


@pytest.mark.parametrize(
    ("mask", "rows", "cols", "verdict"),
    [
        (Causal(), range(64), range(64, 128), NONE),
        (Causal(), range(64, 128), range(64), ALL),
        (Causal(), range(64, 128), range(64, 128), SOME),
        (Window(128), range(640, 704), range(512), NONE),
        (Window(128), range(640, 704), range(513), SOME),
        (Documents(np.repeat(np.arange(8), 128)), range(128, 256), range(128, 256), ALL),
        (Documents(np.repeat(np.arange(8), 128)), range(128, 256), range(256, 512), NONE),
        (Documents(np.repeat(np.arange(8), 128)), range(64, 192), range(128), SOME),
        (Prefix([2, 6]), range(4), range(2, 6), SOME),  # entries differ
        (Padding([8, 8], queries=[2, 2]), range(2, 4), range(8), NONE),
        (Causal() & Prefix(0), range(4), range(4), NONE),
        (Causal() | Prefix(1024), range(4), range(4), ALL),
        (Rule(lambda i, j: j < 0), range(4), range(4), SOME),
    ],
    ids=repr,
)
def test_tiles_are_skipped_and_left_unmasked(mask, rows, cols, verdict):
    assert mask.verdict(rows, cols, Extent(1024, 1024, (2,))) is verdict


INTERVALS = [
    Causal(), Window(2), Window(1, 2, "start"), Window(None, 1), Prefix([0, 4]), Padding([5, 2]),
    Padding([0, 5], [3, 1]), Padding(np.array([[False, True, True, False, False], [True] * 5])),
    Padding(np.zeros((2, 5), bool)), Causal() & Window(3) & Padding([5, 4]), Causal() | Prefix(3),
    (Causal() | Prefix([1, 4])) & Padding([5, 4]), Window(1) | Window(0, 1),
    Documents([0, 0, 1, 1, 7]), Causal() & Documents([[0, 0, 1, 1, 1], [5] * 5]),
    Documents([1, 9, 9, 4, -1], [9, 9, 4, 1, 1]), Documents([0] * 5) | Prefix(2),
    Intervals([0, 2, 4, 0, 1], [3, 2, 5, 5, 4]),
]  # fmt: skip


@pytest.mark.parametrize("mask", INTERVALS, ids=repr)
def test_masks_of_one_run_a_row_are_intervals(mask):
    spans, rest = mask.intervals(Extent(5, 5, (2,), 2))
    assert spans is not None and rest is None


SCATTERED = Padding(np.array([[True, False, True, True, False], [True] * 5]))


@pytest.mark.parametrize(
    "mask",
    [
        SCATTERED, Table(np.eye(5, dtype=bool)), ~Causal(), Window(0) | Prefix(1), Near(1),
        Causal() | SCATTERED, Documents([0, 1, 0, 1, 1]), Causal() | Everything(),
        Rule(lambda i, j: j <= i), Documents([[0, 0, 1, 1, 1], [0, 1, 0, 1, 1]]),
    ],
    ids=lambda mask: repr(mask).split("<function")[0],
)  # fmt: skip
def test_other_masks_are_left_whole(mask):
    assert mask.intervals(Extent(5, 5, (2,))) == (None, mask)


def test_an_intersection_keeps_what_is_left_of_each_side():
    odd, even = Rule(lambda i, j: j % 2 == 1), Rule(lambda i, j: i % 2 == 0)
    spans, rest = ((Causal() & odd) & (even & Window(1))).intervals(Extent(4, 4))
    assert rest == odd & even
    assert (spans.low.tolist(), spans.high.tolist()) == ([0, 0, 1, 2], [1, 2, 3, 4])


def test_what_a_mask_declares():
    assert Causal("start").as_window() == Window(None, 0, "start")
    assert Window(3, 1).as_window() == Window(3, 1) and Near(2).as_window() == Window(2)
    others = (Prefix(2), Padding([2]), ~Causal(), Everything(), Near(1) & Near(2))
    assert [mask.as_window() for mask in others] == [None] * 5
    padding = Padding([2, 3])
    assert padding.as_padding() is padding and (Causal() & padding).as_padding() is None
    a, b, c = Causal(), Window(3), Everything()
    assert (a & (b & c)).conditions() == ((a & b) & c).conditions() == (a, b, c)
    assert (a | b).conditions() == (a | b,)
    again = Causal().seen_from(2, 1, 9, 9).seen_from(3, 2, 5, 7)
    assert again == Part(Causal(), 5, 3, 9, 9)


def test_masks_are_values_and_read_as_they_are_written():
    assert Causal() == Causal("end") != Causal("start") and Window(3) == Window(3, 0) != Window(2)
    assert Causal() & Window(2) == Causal() & Window(2) != Window(2) & Causal()
    assert len({Causal(), Causal("end"), Window(3), ~Window(3), ~Window(3)}) == 3
    with pytest.raises(AttributeError):
        Causal().align = "start"
    assert repr(Causal() & ~Window(2)) == (
        "(Causal(align='end') & ~Window(left=2, right=0, align='end'))"
    )
    assert repr(Causal() | EYE) == "(Causal(align='end') | Table(table=<bool (3, 3)>))"
    assert repr(Padding([1, 2])) == "Padding(keys=<int64 (2,)>, queries=None)"
    assert "query_ids=<int32 (4,)>" in repr(Documents(torch.zeros(4, dtype=torch.int32)))
    assert repr(Everything()) == "Everything()"


@pytest.mark.parametrize("array", [EYE, torch.eye(3, dtype=torch.bool)], ids=["numpy", "torch"])
def test_arrays_combine_from_either_side(array):
    for mask, expected in (
        (array & Causal(), EYE & LOWER),
        (Causal() & array, EYE & LOWER),
        (array | Causal(), EYE | LOWER),
        (Causal() | array, EYE | LOWER),
    ):
        np.testing.assert_array_equal(answer(mask.map(np.asarray), SQUARE)[0], expected)


def test_an_array_of_ones_own_is_cut_and_mapped():
    whole, here = Extent(5, 6, (2, 3), 4), Extent(5, 6, (1, 2), 3)
    mask = Reach(np.arange(24).reshape(2, 3, 4))
    cut = mask.cut(whole, (range(1, 2), range(2)), range(1, 4))
    np.testing.assert_array_equal(answer(cut, here), answer(mask, whole)[1:2, 0:2, 1:4])
    assert list(Everything().arrays()) == [] and Everything().select(()) == Everything()
    assert mask.map(torch.as_tensor).limit.shape == (2, 3, 4)
    with pytest.raises(ShapeError, match=r"Reach\(limit\)"):
        Reach(np.ones(3)).check(whole)


def test_rules_of_many_makes():
    def with_default(i, j, slack=0):
        return j <= i + slack

    class Called:
        def __call__(self, i, j):
            return j <= i

    for fn in (
        operator.ge, with_default, functools.partial(with_default, slack=0), Called(),
        lambda *indices: indices[0] >= indices[1],
    ):  # fmt: skip
        np.testing.assert_array_equal(answer(Rule(fn), SQUARE)[0], LOWER)


NO_TRUTH = r"no truth value; combine masks with & \| ~"
BOTH_WORDS = r"give 'end' .* or 'start'"
TWO_OR_FOUR = r"\(i, j\) or \(batch, head, i, j\)"
NO_MASK = r"mask is a .*; give a regard mask such as"
NUMBERS = r"a mask is boolean.*Additive numbers go into bias="
WHOLE_NUMBER = r"Window\(left=.*whole number ≥ 0, or None"
REFUSED: list[tuple[type[Exception], str, list[Any]]] = [
    (DTypeError, NO_TRUTH, [lambda: bool(Causal()), lambda: not Causal(),
                            lambda: Causal() and Prefix(1)]),
    (DTypeError, NO_MASK, [lambda: Causal() & 3, lambda: "causal" | Causal(),
                           lambda: Causal() | None, lambda: Causal() & [[True]]]),
    (DTypeError, NUMBERS, [lambda: Causal() & np.zeros((2, 2)),
                           lambda: torch.zeros(2, 2) | Causal(),
                           lambda: Table(np.ones((2, 2), int))]),
    (InputError, BOTH_WORDS, [lambda: Causal("middle"), lambda: Causal(None),
                              lambda: Window(1, align="")]),
    (InputError, WHOLE_NUMBER, [lambda: Window(-1), lambda: Window(1.5), lambda: Window(True)]),
    (InputError, r"Window\(right='3'\)", [lambda: Window(1, "3")]),
    (InputError, "no place", [lambda: Causal().seen_from(0.5, 0, 1, 1)]),
    (DTypeError, r"Prefix\(n\) has dtype .*; give a whole number",
     [lambda: Prefix(1.5), lambda: Prefix("2"), lambda: Prefix(np.array([True]))]),
    (DTypeError, r"Padding\(keys\) has dtype .*; give lengths or booleans",
     [lambda: Padding(1.5), lambda: Padding([1.0]), lambda: Padding(None)]),
    (DTypeError, r"Padding\(queries\)", [lambda: Padding(1, "ab")]),
    (ShapeError, "single boolean; give one per token, or lengths", [lambda: Padding(True)]),
    (DTypeError, r"Documents\(query_ids\) has dtype .*; give whole",
     [lambda: Documents([1.0, 2.0]), lambda: Documents("ab")]),
    (ShapeError, "give one id per token", [lambda: Documents(3)]),
    (DTypeError, r"Intervals\(low\)", [lambda: Intervals(np.zeros(6), np.ones(6, int))]),
    (DTypeError, "takes a function", [lambda: Rule(None), lambda: Rule(Causal())]),
    (InputError, TWO_OR_FOUR, [lambda: Rule(lambda: None), lambda: Rule(lambda i: i),
                               lambda: Rule(lambda i, j, k: i)]),
    (DTypeError, "must return booleans",
     [lambda: answer(Rule(lambda i, j: True), SQUARE),
      lambda: answer(Rule(lambda i, j: i - j), SQUARE)]),
    (TypeError, "abstract", [lambda: Mask()]),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words", "attempts"), REFUSED, ids=[w for _, w, _ in REFUSED])
def test_what_is_no_mask_is_refused(error, words, attempts):
    for attempt in attempts:
        with pytest.raises(error, match=words):
            attempt()


WIDE = Extent(2, 3, (4,), heads=2)
NO_TABLE = r"does not broadcast to \(…, heads, queries, keys\)"


@pytest.mark.parametrize(
    ("mask", "extent", "words"),
    [
        (Padding([1, 2, 3]), BATCH, r"Padding\(keys\) as lengths has shape \(3,\)"),
        (Padding(np.ones((2, 4), bool)), BATCH, r"Padding\(keys\) has 4 booleans for 3 keys"),
        (Padding(np.ones((3, 3), bool)), BATCH, r"Padding\(keys\) has shape \(3,\)"),
        (Padding(1, np.ones(3, bool)), BATCH, r"Padding\(queries\) has 3 booleans for 2 queries"),
        (Padding(1, [1, 1, 1]), BATCH, r"Padding\(queries\) as lengths"),
        (Prefix([1, 2, 3]), BATCH, r"Prefix\(n\) has shape .* the batch = \(2,\)"),
        (Prefix([[1, 2]]), BATCH, r"Prefix\(n\) has shape"),
        (Documents([0, 1]), BATCH, r"key_ids\) has 2 ids for 3 key tokens; give key_ids too"),
        (Documents([0, 1, 2], [0, 1, 2]), BATCH, r"query_ids\) has 3 ids for 2 query tokens"),
        (Documents(np.zeros((3, 2), int), [0, 1, 1]), BATCH, r"query_ids\) has shape \(3,\)"),
        (Intervals([1], [2]), BATCH, r"one number per query: \(2,\)"),
        *((Table(np.ones(shape, bool)), WIDE, NO_TABLE)
          for shape in ((2,), (3, 3), (2, 2), (3, 2, 3), (5, 1, 2, 3), (1, 4, 2, 2, 3))),
    ],
    ids=repr,
)  # fmt: skip
def test_what_does_not_fit_is_refused_alone_and_inside(mask, extent, words):
    for wrong in (mask, Causal() & mask, mask | Causal(), ~(Causal() & ~mask)):
        with pytest.raises(ShapeError, match=words):
            wrong.check(extent)
    with pytest.raises(ShapeError):
        mask.seen_from(0, 0, extent.queries, extent.keys).check(Extent(1, 1, extent.batch))


def test_arrays_that_broadcast_fit():
    for shape in ((), (3,), (2, 3), (1, 3), (2, 1), (2, 2, 3), (1, 2, 3), (4, 1, 2, 3)):
        Table(np.ones(shape, bool)).check(WIDE)
    for mask in (Padding(1), Padding([1, 2]), Padding(np.ones(3, bool)), Padding([1], [2, 2]),
                 Prefix([1]), Documents([[0, 1]], [0, 1, 1])):  # fmt: skip
        mask.check(BATCH)


@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
def test_intervals_and_parts_reach_the_backends(implementation):
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, n, 8, generator=dice, dtype=torch.float64) for n in (6, 9, 9))
    low, high = torch.tensor([0, 2, 4, 0, 6, 3]), torch.tensor([3, 2, 7, 9, 5, 9])
    keys = torch.arange(9)
    table = (keys >= low[:, None]) & (keys < high[:, None])
    a = regard.attend(q, k, v, mask=Intervals(low, high), implementation=implementation)
    right = regard.attend(q, k, v, mask=table, implementation="dense")
    torch.testing.assert_close(a.output, right.output)
    torch.testing.assert_close(a.received(), right.received())
    part = regard.attend_partial(
        q[:, :, 2:], k, v, mask=Intervals(low, high), query_start=2, total_queries=6,
        implementation=implementation,
    )  # fmt: skip
    torch.testing.assert_close(part.lse, right.lse[..., 2:])
