"""Small things said in several places."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from regard.views.encoding import as_json
from regard.views.text import bytes_in_words, count, facts_for_json, large_number


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
