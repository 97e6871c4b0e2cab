"""A map at several scales, against the tiles of the same head."""

from __future__ import annotations

import pytest

from regard.recording.visibility import Sight
from regard.views.pyramid import doubled, pyramid_of
from viewer.served import make_opened

WORDS = [f"w{n % 70}" for n in range(700)]


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    return make_opened(tmp_path_factory.mktemp("pyramid"), WORDS)


def _pyramid(opened, label, first):
    head = opened.head(0, label)
    sight = Sight(opened.prompt(0).held(head.place.label), head.head)
    return pyramid_of(head, sight, opened.head_map(0, label), first)


def test_levels_double_until_one_tile_holds_all():
    assert doubled(1, (700, 700)) == [1, 2, 4]
    assert doubled(4, (100, 900)) == [4]
    assert doubled(1, (256, 256)) == [1]


def test_without_q_and_k_it_begins_at_the_stored_cell(opened):
    head = opened.head(0, "L1H0")
    levels = _pyramid(opened, "L1H0", 1)
    assert not head.exact
    assert levels[0].tokens == head.place.pool_cell
    assert all(one.max is None for one in levels)
