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
    ("size", "words"),
    [(7, "7 bytes"), (43_000, "43 kB"), (58_400_000, "58.4 MB"), (1_340_000_000, "1.34 GB")],
)
def test_sizes(size, words):
    assert bytes_in_words(size) == words


@pytest.mark.parametrize(("n", "words"), [(12, "12"), (1200, "1.2k"), (7_200_000_000, "7.2B")])
def test_large_numbers(n, words):
    assert large_number(n) == words


def test_counts():
    assert (count(1, "token"), count(4096, "token")) == ("1 token", "4,096 tokens")
