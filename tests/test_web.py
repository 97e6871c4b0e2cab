"""The page computes what Python computes: its own tests pass, on numbers that are written here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import build_page
import page_vectors
from regard.attention import softmax


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "vectors.json"
    assert page_vectors.main([str(path)]) == 0
    return path


def test_the_numbers_are_those_of_the_notes_in_json_of_any_reader(file: Path) -> None:
    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    vectors = json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)
    lessons = vectors["lessons"]
    worked = lessons["notes"]["worked"]
    np.testing.assert_allclose(worked["output"][0], [0.8446, 0.5777, 0.8446, 0.5777], atol=5e-5)
    assert lessons["causal"]["worked"]["heads"][0]["masked"][0][1] is None  # hidden
    assert lessons["block"]["worked"]["block"] is not None
    assert len(lessons["heads"]["worked"]["heads"]) == 2
    assert np.shape(lessons["narrow values"]["worked"]["concat"]) == (3, 2)
    wrong = {each["name"]: each["first_wrong"] for each in vectors["gradings"] if each["seed"] == 1}
    assert wrong["four decimals"] is None and wrong["cut to two"] is None
    assert wrong["a wrong key"] == "K" and wrong["weights not normalised"] == "weights"


def test_the_page_computes_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the page's own tests, all of them: a PageError holds what vitest said
    monkeypatch.setenv("REGARD_VECTORS", str(file))
    build_page.run_script("test")


def test_a_file_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert page_vectors.main([]) == 2 and "usage" in capsys.readouterr().err


def test_gradients_agree_with_finite_differences_and_outlive_saturation() -> None:
    """Of two keys 50 apart p₁p₂(g₁ − g₂)(k₁ − k₂) is left, far below what 1 − p can hold."""
    gradient_at_query = page_vectors.gradient_at_query
    rng = np.random.default_rng(3)
    query, keys, upstream = rng.normal(size=5), rng.normal(size=(4, 5)), rng.normal(size=4)
    factor = 1 / np.sqrt(5)

    def loss(q: Any) -> float:
        return float(upstream @ softmax(factor * (keys @ q)[None])[0])

    steps = 1e-6 * np.eye(5)
    expected = [(loss(query + h) - loss(query - h)) / 2e-6 for h in steps]
    gradient, _ = gradient_at_query(factor * (keys @ query)[None], upstream[None], keys, factor)
    np.testing.assert_allclose(gradient[0], expected, atol=1e-8)
    keys, upstream = np.array([[1.0], [3.0]]), np.array([[0.3, -1.1]])
    gradient, _ = gradient_at_query(np.array([[50.0, 0.0]]), upstream, keys, 1.0)
    expected = np.exp(-50.0) / (1 + np.exp(-50.0)) ** 2 * (0.3 + 1.1) * (1.0 - 3.0)
    np.testing.assert_allclose(gradient[0, 0], expected, rtol=1e-12)


def test_the_notes_example_is_temperature(file: Path) -> None:
    raw, divided = json.loads(file.read_text(encoding="utf-8"))["temperature"]
    assert raw["scores"] == [6, 4] and divided["scores"] == [3, 2]
    assert np.round(raw["weights"], 4).tolist() == [0.8808, 0.1192]
    assert np.round(divided["weights"], 4).tolist() == [0.7311, 0.2689]
    assert round(raw["slope"], 3) == 0.105 and round(divided["slope"], 3) == 0.098
