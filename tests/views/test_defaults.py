"""What is shown before a choice is made, and numbers and facts in words."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from regard.views.defaults import farthest_head, telling_grid, telling_statistic
from regard.views.encoding import as_json
from regard.views.overview import whole_overview
from regard.views.text import bytes_in_words, count, facts_for_json, large_number
from support.recordings import in_memory


def test_the_grid_that_is_shown_first_is_the_one_that_spreads():
    wall, spread = np.ones((4, 4)), np.linspace(0, 1, 16).reshape(4, 4)
    near, nearer = np.linspace(0.5, 0.6, 8).reshape(2, 4), np.full((2, 4), 0.5)
    for grids, name in (
        ({"non_sink": [wall], "normalized_entropy": [spread]}, "normalized_entropy"),
        ({"non_sink": [spread], "normalized_entropy": [spread]}, "non_sink"),
        ({"non_sink": [nearer], "first": [near]}, "first"),
        ({}, "non_sink"), ({"non_sink": [None]}, "non_sink"),
    ):  # fmt: skip
        assert telling_grid(grids) == name


def test_the_farthest_head_is_opened():
    grid = np.full((3, 5), 0.5)
    grid[2, 3], grid[0, 1] = 0.9, 0.6
    assert farthest_head({"": grid}) == ("", 2, 3)
    assert farthest_head({"encoder": np.full((3, 5), np.nan)}) is None
    assert farthest_head({"": np.array([[0.1], [0.1], [0.1], [0.9]])}) == ("", 3, 0)


def test_terminal_and_page_open_on_the_same():
    recording, _ = in_memory()
    told = whole_overview(recording)
    assert told["statistic"] == telling_statistic(recording.prompts[0])
    assert told["opens_on"] in recording.prompts[0].labels()
    assert all(one["title"] for one in told["statistics"].values())
    assert told["statistics"]["non_sink"]["title"] in told["glossary"]


def test_numbers_become_json():
    value = as_json(np.array([[0.5, np.nan], [np.inf, -np.inf]], np.float32))
    assert value == [[0.5, None], [None, None]]
    assert json.dumps(value, allow_nan=False)
    assert as_json(np.arange(3)) == [0, 1, 2]
    assert as_json(0.25) == 0.25 and as_json(float("nan")) is None


def test_facts_of_any_kind_become_json():
    deep: list = []
    for _ in range(300):
        deep = [deep]
    given = {"name": "猫", "loss": math.nan, "list": [1, math.inf], "deep": deep, "none": None}
    assert facts_for_json(given) == {"name": "猫", "loss": None, "list": [1, None], "none": None}
    deeper: list = []
    for _ in range(100_000):
        deeper = [deeper]
    assert facts_for_json({"deeper": deeper, "fine": 1}) == {"fine": 1}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (bytes_in_words(7), "7 bytes"), (bytes_in_words(43_000), "43 kB"),
        (bytes_in_words(58_400_000), "58.4 MB"), (bytes_in_words(1_340_000_000), "1.34 GB"),
        (large_number(12), "12"), (large_number(1200), "1.2k"), (large_number(7.2e9), "7.2B"),
        (count(1, "token"), "1 token"), (count(4096, "token"), "4,096 tokens"),
    ],
)  # fmt: skip
def test_numbers_in_words(words, wanted):
    assert words == wanted
