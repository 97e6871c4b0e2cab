"""Profiles of distances add up over the edges that they share."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import FileError
from regard.recording.layer import Profile, add_profiles, mass_at


def profile(edges: list[int], masses: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Two heads, the second with twice as much."""
    one = np.array(masses, np.float32)
    return np.stack([one, 2 * one]), np.array(edges, np.int32)


def test_equal_bins_add():
    total = add_profiles("L0", [profile([0, 1, 2, 4], [1, 2, 3]), profile([0, 1, 2, 4], [4, 5, 6])])
    assert total.edges.tolist() == [0, 1, 2, 4] and total.masses[1].tolist() == [10, 14, 18]


def test_a_longer_profile_keeps_its_far_bins():
    total = add_profiles(
        "L0", [profile([-1, 0, 1, 2], [1, 2, 3]), profile([0, 1, 2, 4, 8], [1, 1, 1, 1])]
    )
    assert total.edges.tolist() == [-1, 0, 1, 2, 4, 8]
    assert total.masses[0].tolist() == [1, 3, 4, 1, 1]


def test_bins_that_cross_are_joined():
    total = add_profiles("L0", [profile([0, 2, 4], [1, 2]), profile([0, 1, 3, 4], [1, 2, 4])])
    assert total.edges.tolist() == [0, 4] and total.masses[0].tolist() == [10]
    assert total.masses.sum() == 30


def test_the_mass_at_one_distance():
    one = Profile(*profile([-2, -1, 0, 1, 4], [1, 2, 3, 4]))
    assert mass_at(one, 0).tolist() == [3, 6] and mass_at(one, -2).tolist() == [1, 2]
    assert mass_at(one, 2) is None  # shares its bin
    assert mass_at(one, 9).tolist() == mass_at(one, -9).tolist() == [0, 0]


@pytest.mark.parametrize("edges", [[0, 1], [0, 1, 1, 2], [3, 2, 1, 0], [0, 1, 2, 3, 4]])
def test_edges_that_do_not_fit_are_refused(edges):
    masses = np.zeros((2, 3), np.float32)
    with pytest.raises(FileError, match="L0: offset_edges do not fit offsets, or do not ascend"):
        add_profiles("L0", [(masses, np.array(edges))])
