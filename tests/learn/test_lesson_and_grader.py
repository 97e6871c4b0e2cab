"""The lesson and the grader agree: the numbers of the one are the right ones of the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.learn.grading.marking import Mark, mark
from regard.learn.grading.report import full, grade_file, one_line
from regard.learn.grading.submission import parse_submission
from regard.learn.lesson.make import Lesson, Options, make_lesson
from regard.learn.text import labels_of, printable

WORDS = st.sampled_from(["the", "cat", "sat", "on", "mat", "Tired", "Q", "keys", "weights"])
SENTENCES = st.lists(WORDS, min_size=1, max_size=5, unique=True).map(" ".join)
OPTIONS = st.fixed_dictionaries(
    {
        "sentence": SENTENCES,
        "projections": st.sampled_from(["identity", "random:0", "random:7"]),
        "d_k": st.sampled_from([None, 1, 3, 8]),
        "d_v": st.sampled_from([None, 2]),
        "positions": st.booleans(),
    }
)
COMPUTED = ("Q", "K", "V", "scores", "scaled", "weights", "output")


def printed(lesson: Lesson, decimals: int) -> dict[str, Any]:
    """The lesson as a hand calculation: the task as it is, the rest rounded."""
    head = lesson.heads[0]
    exact = {"embeddings": lesson.embedding.x, "w_q": head.w_q, "w_k": head.w_k, "w_v": head.w_v}
    rounded = {
        "Q": head.queries, "K": head.keys, "V": head.values, "scores": head.scores,
        "scaled": head.scaled, "weights": head.weights, "output": head.context,
    }  # fmt: skip
    document: dict[str, Any] = {"tokens": list(lesson.sentence.tokens)}
    document |= {name: [[f"{n:.12f}" for n in row] for row in m] for name, m in exact.items()}
    return document | {
        name: [[f"{n:.{decimals}f}" for n in row] for row in m] for name, m in rounded.items()
    }


def in_markdown(document: dict[str, Any]) -> str:
    lines = [f"tokens: {', '.join(document['tokens'])}"]
    for name, rows in document.items():
        if name != "tokens":
            lines += [f"## {name}", *(f"[{' '.join(row)}]" for row in rows)]
    return "\n".join(lines)


def graded(document: dict[str, Any]) -> Mark:
    return mark(parse_submission(json.dumps(document)))


@settings(max_examples=60, deadline=None)
@given(OPTIONS, st.integers(1, 8), st.booleans())
def test_every_lesson_is_right(asked: dict[str, Any], decimals: int, as_json: bool) -> None:
    """To however many places it is printed, and on whichever kind of paper."""
    document = printed(make_lesson(Options(**asked)), decimals)
    text = json.dumps(document) if as_json else in_markdown(document)
    found = mark(parse_submission(text))
    assert found.verdict == "right" and found.blank == 0
    assert found.checked == sum(len(row) for name in COMPUTED for row in document[name])


@settings(max_examples=60, deadline=None)
@given(OPTIONS, st.sampled_from(COMPUTED), st.data())
def test_a_slip_is_found_where_it_was_made(
    asked: dict[str, Any], step: str, data: st.DataObject
) -> None:
    """One cell, off by far more than rounding; what follows is judged by it or by the truth."""
    lesson = make_lesson(Options(**asked))
    document = printed(lesson, 6)
    row = data.draw(st.integers(0, len(document[step]) - 1))
    column = data.draw(st.integers(0, len(document[step][row]) - 1))
    right = float(document[step][row][column])
    document[step][row][column] = f"{right + 0.5:.6f}"
    found = graded(document)
    assert found.verdict == "wrong" and found.first_wrong is not None
    assert found.first_wrong.step == step
    (cell, *_) = found.first_wrong.cells()
    assert (cell.row, cell.column) == (row, column)
    assert cell.given == pytest.approx(right + 0.5) and cell.right == pytest.approx(right, abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(OPTIONS, st.sets(st.sampled_from(COMPUTED)))
def test_steps_left_out_change_no_verdict(asked: dict[str, Any], gone: set[str]) -> None:
    document = printed(make_lesson(Options(**asked)), 6)
    for step in gone:
        del document[step]
    found = graded(document)
    assert found.verdict == ("right" if len(gone) < len(COMPUTED) else "nothing to check")


@settings(max_examples=30, deadline=None)
@given(OPTIONS, st.randoms())
def test_rows_are_found_by_their_words_in_any_order(asked: dict[str, Any], random: Any) -> None:
    document = printed(make_lesson(Options(**asked)), 4)
    words = document["tokens"]
    for step in ("Q", "weights", "output"):
        named = list(zip(words, document[step], strict=True))
        random.shuffle(named)
        document[step] = dict(named)
    assert graded(document).verdict == "right"


def test_a_verdict_as_json_and_as_words(tmp_path: Path) -> None:
    """The same facts in the document, in full, and on one line."""
    document = printed(make_lesson(Options("The cat sat")), 4)
    document["weights"][1][2] = "0.9000"
    path = tmp_path / "work.json"
    path.write_text(json.dumps(document))
    found = grade_file(path)
    told = json.loads(json.dumps(found.as_dict()))
    assert told["verdict"] == "wrong" and told["steps"]["weights"]["wrong"] == 1
    assert told["steps"]["output"]["checked"] == 12 and told["blank"] == 0
    first = told["first_wrong"]
    assert (first["step"], first["cell"], first["given"]) == ("weights", "cat → sat", 0.9)
    assert first["right"] == pytest.approx(0.4223, abs=1e-4)
    assert set(first["cause"]) == {"kind", "text", "note"} and first["cause"]["text"]
    words = "\n".join("".join(text for text, _ in line) for line in full(found))
    assert "cat → sat" in words and first["cause"]["text"] in words and "0.9000" in words
    line = "".join(text for text, _ in one_line(found, 0))
    assert "wrong at weights: cat → sat, given 0.9000" in line


@pytest.mark.parametrize(
    ("content", "verdict", "said"),
    [
        ('{"weights": [[NaN]]}', "unreadable", "NaN is not a number to grade"),
        ("## weights\n[1 2]\n[1]", "unreadable", "ragged"),
        ('{"weights": [[0.5, 0.5]]}', "nothing to check", "no step in it leads to another"),
        ('{"d_k": 4, "scores": [[1]], "scaled": [[null]]}', "nothing filled in", ""),
    ],
)
def test_what_is_neither_right_nor_wrong(
    tmp_path: Path, content: str, verdict: str, said: str
) -> None:
    path = tmp_path / "work.md"
    path.write_text(content)
    found = grade_file(path)
    assert found.verdict == verdict and found.as_dict()["verdict"] == verdict
    words = "".join(text for text, _ in one_line(found, 0))
    assert verdict in words and said in words
    in_full = "\n".join("".join(text for text, _ in line) for line in full(found))
    assert said in in_full or said in " ".join(in_full.split())


# ── lessons among themselves ─────────────────────────────────────────────────────────────────


@settings(max_examples=40, deadline=None)
@given(OPTIONS, st.randoms())
def test_without_positions_order_is_only_order(asked: dict[str, Any], random: Any) -> None:
    words = asked["sentence"].split()
    order = list(range(len(words)))
    random.shuffle(order)
    plain = make_lesson(Options(**asked | {"positions": False}))
    mixed = " ".join(words[n] for n in order)
    other = make_lesson(Options(**asked | {"positions": False, "sentence": mixed}))
    np.testing.assert_allclose(other.output, plain.output[order], atol=1e-12)
    np.testing.assert_allclose(
        other.heads[0].weights, plain.heads[0].weights[order][:, order], atol=1e-12
    )


@settings(max_examples=40, deadline=None)
@given(OPTIONS, st.booleans())
def test_a_causal_lesson_knows_nothing_of_what_follows(asked: dict[str, Any], scaled: bool) -> None:
    words = asked["sentence"].split()
    assume(len(words) > 1)
    asked |= {"causal": True, "scaled": scaled}
    whole = make_lesson(Options(**asked))
    for count in range(1, len(words)):
        part = make_lesson(Options(**asked | {"sentence": " ".join(words[:count])}))
        np.testing.assert_allclose(whole.output[:count], part.output, atol=1e-12)
    assert np.triu(whole.heads[0].weights, 1).sum() == 0


@settings(max_examples=30, deadline=None)
@given(SENTENCES, st.sampled_from([2, 4]), st.booleans(), st.booleans())
def test_heads_are_lessons_side_by_side(
    sentence: str, heads: int, causal: bool, positions: bool
) -> None:
    asked = {"causal": causal, "positions": positions, "projections": "random:3", "d_k": 2}
    many = make_lesson(Options(sentence, heads=heads, d_v=3, **asked))
    assert many.concat.shape[1] == 3 * heads and len(many.heads) == heads
    one = make_lesson(Options(sentence, heads=1, d_v=3, **asked))
    np.testing.assert_allclose(many.concat[:, :3], one.output, atol=1e-12)
    np.testing.assert_allclose(many.output, many.concat @ many.projections.w_o, atol=1e-12)


@given(st.lists(st.sampled_from(["a", "a₂", "a₃", "a₂₂", "b"]), max_size=12))
def test_labels_stay_apart_even_from_words_that_look_like_labels(tokens: list[str]) -> None:
    labels = labels_of(tokens)
    assert len(set(labels)) == len(labels) == len(tokens)
    for label, token in zip(labels, tokens, strict=True):
        assert label.startswith(token) and printable(label) == label
