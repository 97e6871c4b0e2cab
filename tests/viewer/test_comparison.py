"""Two prompts side by side, as the page asks for them."""

from __future__ import annotations

import pytest

from regard.errors import InputError
from regard.recording import open
from regard.study import compare_recordings
from regard.viewer.answers import comparison, comparison_progress
from regard.viewer.opened import Opened
from regard.views import comparison as module
from support.recordings import WORDS, make_state
from viewer.served import make_opened


@pytest.fixture
def two(tmp_path):
    """Two prompts in one recording."""
    return make_opened(tmp_path, [WORDS[n % 12] for n in range(60)], prompts=2, exact=(0, 1))


def test_numbers_are_those_of_the_study(two):
    said = comparison((two, 0), (two, 1))
    truth = compare_recordings(two.recording, two.recording, prompts=(0, 1), rows=module.ROWS)
    assert said["heads"] == truth.as_dict()["heads"] and said["largest"] == truth.largest > 0
    assert said["a"] == {
        "recording": 0, "prompt": 0, "name": "run.regard", "model": "tiny", "title": "text 0",
    }  # fmt: skip
    assert said["b"]["prompt"] == 1 and said["doubts"] == []


def test_what_must_be_known_first(tmp_path):
    one = Opened(open(make_state(tmp_path / "stored.regard", "stored only")))
    (tmp_path / "more").mkdir()
    other = make_opened(tmp_path / "more", exact=(0, 1))
    said = " ".join(comparison((one, 0), (other, 0))["doubts"])
    assert "have no q and k on both sides" in said
    same = comparison((other, 0), (other, 0))
    assert same["doubts"] == ["only 12 rows stand for each other: these numbers say little"]


def test_two_models_are_named(tmp_path):
    one, other = (Opened(open(make_state(tmp_path / f"{n}.regard", "exact"))) for n in "ab")
    with open(tmp_path / "a.regard") as left, open(tmp_path / "b.regard") as right:
        right.model["name"] = "large"
        sides = module.Side(left, 0, one.who), module.Side(right, 0, other.who)
        assert "two models, tiny and large" in module.make_comparison(*sides)["doubts"][0]
    one.close()
    other.close()


def test_it_is_made_once(two, monkeypatch):
    made = []
    real = module.compare_recordings
    monkeypatch.setattr(
        module, "compare_recordings", lambda *a, **k: (made.append(1), real(*a, **k))[1]
    )
    first = comparison((two, 0), (two, 1))
    assert comparison((two, 0), (two, 1)) is first and made == [1]
    comparison((two, 1), (two, 0))
    assert made == [1, 1]


def test_it_can_be_given_up_and_its_progress_is_known(two):
    """Nothing is said of a comparison that nobody waits for."""
    told = []

    def look():
        told.append(comparison_progress((two, 0), (two, 1)))
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        comparison((two, 0), (two, 1), look)
    assert len(told) == 3
    heads = len(two.prompt(0))
    comparison((two, 0), (two, 1), look)
    assert [each["done"] for each in told[4:]] == list(range(heads - 1))
    assert {each["total"] for each in told[4:]} == {heads}
    assert comparison_progress((two, 0), (two, 1)) == {"done": 0, "total": 0}


def test_nothing_in_common(tmp_path, two):
    cross = Opened(open(make_state(tmp_path / "cross.regard", "cross")), 1)
    said = r"^run\.regard and cross\.regard have no head in common$"
    with pytest.raises(InputError, match=said):
        comparison((two, 0), (cross, 0))
