"""What widths follow from what was asked for; the identity and random projections."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError, ShapeError
from regard.learn.languages import language
from regard.learn.lesson.projections import (
    Sizes,
    identity_projections,
    random_projections,
    seed_in,
    settle,
)

SIZES = st.builds(Sizes, st.integers(1, 9), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9))


def test_one_head_is_the_identity():
    made = identity_projections(Sizes(4, 1, 4, 4), w_o=False)
    (head,) = made.heads
    for w in (head.w_q, head.w_k, head.w_v):
        assert np.array_equal(w, np.eye(4))
    assert made.w_o is None
    assert language("en")(made.source) == "w_q = w_k = w_v = identity"


def test_heads_take_their_own_dimensions():
    made = identity_projections(Sizes(4, 2, 2, 2), w_o=True)
    assert np.array_equal(np.hstack([head.w_k for head in made.heads]), np.eye(4))
    assert np.array_equal(np.hstack([head.w_v for head in made.heads]), np.eye(4))
    assert np.array_equal(made.w_o, np.eye(4))
    assert "each head passes its own dimensions" in language("en")(made.source)


def test_the_second_half_of_the_heads_ask_one_dimension_further():
    first, second = identity_projections(Sizes(4, 2, 2, 2), w_o=True).heads
    assert np.array_equal(first.w_q, first.w_k)
    assert np.argmax(second.w_k, axis=0).tolist() == [2, 3]
    assert np.argmax(second.w_q, axis=0).tolist() == [3, 0]
    (alone,) = identity_projections(Sizes(4, 1, 4, 4), w_o=True).heads
    assert np.array_equal(alone.w_q, alone.w_k)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (
            Sizes(4, 1, 2, 4),
            "w_q = w_k is 4 × 2, which cuts dimensions off; w_v is 4 × 4, the iden",
        ),
        (Sizes(4, 1, 4, 6), "w_v is 4 × 6, padded with zeros"),
        (Sizes(4, 3, 2, 2), "w_o is 6 × 4, which cuts dimensions off"),
    ],
)
def test_a_rectangular_identity_says_so(sizes, words):
    assert words in language("en")(identity_projections(sizes, w_o=True).source)


def test_a_single_rectangle_is_numpys():
    (head,) = identity_projections(Sizes(4, 1, 2, 6), w_o=False).heads
    assert np.array_equal(head.w_q, np.eye(4, 2))
    assert np.array_equal(head.w_v, np.eye(4, 6))


@given(SIZES, st.booleans())
def test_shapes_are_what_was_asked(sizes, w_o):
    for made in (identity_projections(sizes, w_o=w_o), random_projections(sizes, 7, w_o=w_o)):
        assert made.sizes == sizes
        for head in made.heads:
            assert head.w_q.shape == head.w_k.shape == (sizes.width, sizes.d_k)
            assert head.w_v.shape == (sizes.width, sizes.d_v)
        assert (made.w_o is None) == (not w_o)
        if made.w_o is not None:
            assert made.w_o.shape == (sizes.heads * sizes.d_v, sizes.width)


def test_no_head_of_the_identity_is_blind():
    for head in identity_projections(Sizes(4, 5, 3, 3), w_o=True).heads:
        assert head.w_q.sum() == 3


def test_random_numbers_are_pinned_and_differ_everywhere():
    made = random_projections(Sizes(4, 2, 2, 2), 7, w_o=True)
    again = random_projections(Sizes(4, 2, 2, 2), 7, w_o=True)
    matrices = [w for h in made.heads for w in (h.w_q, h.w_k, h.w_v)]
    assert [h.w_k.tolist() for h in made.heads] == [h.w_k.tolist() for h in again.heads]
    assert len({w.tobytes() for w in matrices}) == 6
    assert made.heads[0].w_q[0].tolist() == [0.42, 0.21]
    assert made.seed == 7
    assert "random numbers (seed 7), not learned" in language("en")(made.source)


def test_a_head_does_not_depend_on_how_many_there_are():
    two = random_projections(Sizes(8, 2, 2, 2), 3, w_o=True)
    four = random_projections(Sizes(8, 4, 2, 2), 3, w_o=True)
    assert np.array_equal(two.heads[1].w_v, four.heads[1].w_v)


def test_random_queries_are_about_as_large_as_x():
    (head,) = random_projections(Sizes(256, 1, 256, 256), 1, w_o=False).heads
    assert (head.w_q**2).sum(axis=0).mean() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(("spec", "seed"), [("random:0", 0), ("random:42", 42), ("random:007", 7)])
def test_seeds_are_read(spec, seed):
    assert seed_in(spec) == seed


@pytest.mark.parametrize("spec", ["identity", "weights.json", "", "Random:3"])
def test_other_words_have_no_seed(spec):
    assert seed_in(spec) is None


@pytest.mark.parametrize("spec", ["random", "random:", "random:x", "random:-1", "random:1.5"])
def test_a_seed_that_is_none_is_refused(spec):
    with pytest.raises(InputError, match="give a seed ≥ 0 with it, as in random:7"):
        seed_in(spec)


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [
        ({}, Sizes(4, 1, 4, 4)),
        ({"heads": 2}, Sizes(4, 2, 2, 2)),
        ({"heads": 4}, Sizes(4, 4, 1, 1)),
        ({"d_k": 2}, Sizes(4, 1, 2, 4)),
        ({"d_v": 6}, Sizes(4, 1, 4, 6)),
        ({"heads": 2, "d_k": 3}, Sizes(4, 2, 3, 2)),
        ({"heads": 3, "d_k": 2}, Sizes(4, 3, 2, 2)),
        ({"heads": 3, "d_k": 2, "d_v": 5}, Sizes(4, 3, 2, 5)),
    ],
)
def test_what_is_not_asked_for_follows(asked, sizes):
    assert settle(4, **asked) == sizes


def test_a_width_that_does_not_divide_says_what_does():
    with pytest.raises(
        ShapeError, match="width of 6 does not divide into 4 heads; give 1, 2, 3, 6"
    ):
        settle(6, heads=4)


@pytest.mark.parametrize("name", ["heads", "d_k", "d_v"])
@pytest.mark.parametrize("value", [0, -1, 100_000])
def test_counts_have_limits(name, value):
    with pytest.raises(
        InputError, match=f"--{name.replace('_', '-')} {value}: give a whole number"
    ):
        settle(4, **{name: value})


@given(st.integers(1, 64), st.integers(1, 64))
def test_heads_share_the_width_or_are_refused(width, heads):
    if width % heads:
        with pytest.raises(ShapeError):
            settle(width, heads=heads)
    else:
        assert settle(width, heads=heads).concat == width
