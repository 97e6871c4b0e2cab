"""What is shown before anybody chooses."""

import numpy as np

from regard.views.defaults import farthest_head, telling_grid, telling_statistic
from regard.views.overview import whole_overview
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
