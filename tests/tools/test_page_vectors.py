"""What the page's mathematics is compared with: complete, and readable by any JSON reader."""

from __future__ import annotations

import json

import numpy as np
import pytest


@pytest.fixture(scope="module")
def file(tool, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "vectors.json"
    assert tool("page_vectors").main([str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def vectors(file):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)


def test_the_notes_example_is_among_them(vectors):
    worked = vectors["lessons"]["notes"]["worked"]
    np.testing.assert_allclose(worked["output"][0], [0.8446, 0.5777, 0.8446, 0.5777], atol=5e-5)


def test_hidden_scores_are_null(vectors):
    assert vectors["lessons"]["causal"]["worked"]["heads"][0]["masked"][0][1] is None


def test_every_kind_of_lesson_has_its_steps(vectors):
    lessons = vectors["lessons"]
    assert lessons["block"]["worked"]["block"] is not None
    assert len(lessons["heads"]["worked"]["heads"]) == 2
    assert np.shape(lessons["narrow values"]["worked"]["concat"]) == (3, 2)


def test_gradings_hold_right_and_wrong_ones(vectors):
    found = {one["name"]: one["first_wrong"] for one in vectors["gradings"] if one["seed"] == 1}
    assert found["four decimals"] is None and found["cut to two"] is None
    assert found["a wrong key"] == "K"
    assert found["weights not normalised"] == "weights"


def test_a_file_must_be_named(tool, capsys):
    assert tool("page_vectors").main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_the_page_computes_the_same(tool, file, monkeypatch):
    # the page's own tests, all of them: a PageError holds what vitest said
    monkeypatch.setenv("REGARD_VECTORS", str(file))
    tool("build_page").run_script("test")
