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
