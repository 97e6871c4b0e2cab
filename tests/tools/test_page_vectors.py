"""What the page's mathematics is compared with: complete, and readable by any JSON reader."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.attention import softmax


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


def test_gradients_agree_with_finite_differences_and_outlive_saturation(tool):
    """Of two keys 50 apart p₁p₂(g₁ − g₂)(k₁ − k₂) is left, far below what 1 − p can hold."""
    gradient_at_query = tool("page_vectors").gradient_at_query
    rng = np.random.default_rng(3)
    query, keys, upstream = rng.normal(size=5), rng.normal(size=(4, 5)), rng.normal(size=4)
    factor = 1 / np.sqrt(5)

    def loss(q):
        return float(upstream @ softmax(factor * (keys @ q)[None])[0])

    steps = 1e-6 * np.eye(5)
    expected = [(loss(query + h) - loss(query - h)) / 2e-6 for h in steps]
    gradient, _ = gradient_at_query(factor * (keys @ query)[None], upstream[None], keys, factor)
    np.testing.assert_allclose(gradient[0], expected, atol=1e-8)
    keys, upstream = np.array([[1.0], [3.0]]), np.array([[0.3, -1.1]])
    gradient, _ = gradient_at_query(np.array([[50.0, 0.0]]), upstream, keys, 1.0)
    expected = np.exp(-50.0) / (1 + np.exp(-50.0)) ** 2 * (0.3 + 1.1) * (1.0 - 3.0)
    np.testing.assert_allclose(gradient[0, 0], expected, rtol=1e-12)


def test_the_notes_example_is_temperature(vectors):
    raw, divided = vectors["temperature"]
    assert raw["scores"] == [6, 4] and divided["scores"] == [3, 2]
    assert np.round(raw["weights"], 4).tolist() == [0.8808, 0.1192]
    assert np.round(divided["weights"], 4).tolist() == [0.7311, 0.2689]
    assert round(raw["slope"], 3) == 0.105 and round(divided["slope"], 3) == 0.098
