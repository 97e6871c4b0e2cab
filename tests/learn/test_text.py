"""How words and numbers are shown."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.learn.text import (
    bracketed,
    cells,
    column,
    factor,
    figure,
    figures,
    labels_of,
    listed,
    padded,
    printable,
    quoted,
    read_text,
    right_aligned,
    short_indices,
    wrapped,
)


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


FINITE = st.floats(-9e3, 9e3)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1, 0, 1], ["1", "0", "1"]),
        ([0.5, 1], ["0.5", "1.0"]),
        ([0.42231, 1], ["0.4223", "1.0000"]),
        ([1e-9, 2], ["0", "2"]),
        ([-1e-9], ["0"]),
        ([-0.0], ["0"]),
        ([0.1 + 0.2], ["0.3"]),
        ([-np.inf, 1], ["·", "1"]),
        ([-np.inf], ["·"]),
        ([12345678.0, 0.5], ["1.235e+07", "0.5"]),
        ([], []),
    ],
)
def test_a_group_has_as_many_decimals_as_it_needs(values, texts):
    assert figures(values) == texts


@given(st.lists(FINITE, min_size=1))
def test_texts_are_the_numbers_to_four_decimals(values):
    for value, text in zip(values, figures(values), strict=True):
        assert float(text) == pytest.approx(value, abs=5.1e-5)
        assert not text.startswith("-0") or float(text) != 0


@given(st.lists(FINITE, min_size=1))
def test_all_texts_of_a_group_have_the_same_decimals(values):
    assert len({len(text.partition(".")[2]) for text in figures(values)}) == 1


@given(st.lists(FINITE, min_size=1))
def test_columns_are_aligned(values):
    assert len({len(text) for text in column(values)}) == 1


def test_one_number_alone():
    assert figure(2.0) == "2"
    assert figure(1.41421356) == "1.4142"


def test_negative_factors_are_bracketed():
    assert factor("-1.5") == "(-1.5)"
    assert factor("1.5") == "1.5"


def test_vectors():
    assert bracketed(["1", "0"]) == "[1 0]"
    assert bracketed([str(n) for n in range(8)]) == "[0 1 2 3 4 5 6 7]"
    assert bracketed([str(n) for n in range(20)]) == "[0 1 2 3 4 … 19]"
    assert bracketed([str(n) for n in range(20)], 5) == "[0 1 … 19]"


@given(st.integers(0, 100), st.integers(4, 10))
def test_short_indices_are_few_and_end_with_the_last(count, most):
    kept = short_indices(count, most)
    assert len(kept) <= most
    assert kept == sorted(set(kept))
    assert not count or (kept[0] == 0 and kept[-1] == count - 1)
    assert count > most or kept == list(range(count))


@pytest.mark.parametrize("width", [20, 33, 60])
def test_chinese_is_wrapped_by_cells(width):
    text = (
        "注意力让文本中的每个词元（包括自己）从其他词元那里取得一些信息：Q = X @ w_q，与笔记相同。"
    )
    lines = wrapped(text, width)
    assert max(map(cells, lines)) <= width
    assert len(lines) >= cells(text) // width
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert not any(line[0] in "，。：）" or line[-1] == "（" for line in lines)


def test_words_are_wrapped_whole():
    assert wrapped("ab cd-ef gh", 5, break_long_words=False) == ["ab", "cd-ef", "gh"]
    assert wrapped("猫 abcdefgh 猫", 6) == ["猫", "abcdefgh", "猫"]
    assert wrapped("", 20) == []


def test_aligned_by_cells():
    assert right_aligned("合计", 6) == "  合计"
    assert right_aligned("sum", 2) == "sum"


# ── files ────────────────────────────────────────────────────────────────────────────────────


def read(path):
    return read_text(path, mib=1, wanted="a page")


def test_text_is_read_with_or_without_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.md"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text("√×", encoding=encoding)
        assert read(path) == "√×"


def test_the_limit_itself_may_be_read_and_one_byte_more_may_not(tmp_path):
    path = tmp_path / "a.md"
    path.write_bytes(b"x" * 2**20)
    assert len(read(path)) == 2**20
    path.write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(InputError, match=r"a\.md: more than 1 MiB; give a page"):
        read(path)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("gone", "no such file"),
        ("folder", "cannot be read (a folder, not a file)"),
        ("pipe", "cannot be read (a pipe, not a file)"),
        ("latin", "not UTF-8 text"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, problem):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: {problem}")
    assert str(caught.value).endswith("; give a page")
