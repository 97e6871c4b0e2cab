"""How tokens are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.learn.labels import cells, labels_of, listed, padded, printable, quoted


def test_repeated_words_are_told_apart():
    assert labels_of(["the", "cat", "the", "the"]) == ("the", "cat", "the₂", "the₃")
    assert labels_of(["The", "the"]) == ("The", "the")


def test_the_tenth_and_later_get_two_digits():
    assert labels_of(["a"] * 12)[-1] == "a₁₂"


def test_long_words_are_cut_with_a_mark():
    assert labels_of(["extraordinarily"]) == ("extraordina…",)
    assert labels_of(["twelveletter"]) == ("twelveletter",)


def test_words_that_look_alike_once_cut_are_told_apart():
    assert labels_of(["extraordinarily", "extraordinary"]) == ("extraordina…", "extraordina…₂")


@pytest.mark.parametrize(
    ("text", "width"),
    [("cat", 3), ("", 0), ("語語", 4), ("e\u0301", 1), ("👍", 2), ("a\u200db", 2), ("ﬁ", 1)],
)
def test_cells(text, width):
    assert cells(text) == width


def test_padding_counts_cells_and_never_cuts():
    assert padded("語", 4) == "語  "
    assert padded("abc", 2) == "abc"


@pytest.mark.parametrize("steering", ["\x1b[31m", "\x07", "\u202e", "\r", "\x9b"])
def test_nothing_that_steers_a_terminal_is_shown(steering):
    assert printable(f"a{steering[0]}b") == "a\ufffdb"


def test_joined_emoji_stay_joined():
    assert printable("👩\u200d🚀") == "👩\u200d🚀"


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=20))
def test_labels_are_short_printable_and_unique(tokens):
    labels = labels_of(tokens)
    assert len(labels) == len(tokens)
    assert len(set(labels)) == len(labels)
    for label in labels:
        assert printable(label) == label
        assert cells(label) <= 12 + len(str(len(tokens)))


def test_quoted_is_one_short_line():
    assert quoted("cat") == "'cat'"
    assert quoted("a\nb") == "'a\ufffdb'"
    assert len(quoted("x" * 1000)) == 42


def test_listed_counts_what_it_leaves_out():
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(n) for n in range(15)], 3) == "0, 1, 2 and 12 more"
    assert listed([]) == ""
