"""Patches over pictures on paper of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from regard.colour.over import blended
from regard.draw import Paper, plain
from regard.draw.over import Patches, patch_lines, pooling_step
from regard.draw.spelling import cells

TRUE, SOME, MONO = Paper(80, 40, "true"), Paper(80, 40, "256"), Paper(80, 40)
PICTURE = np.zeros((40, 60, 3), np.uint8)
PICTURE[:20] = (255, 0, 0)


def shares(high=4, wide=6):
    found = np.zeros((high, wide))
    found[1, 4] = 1.0
    return found


def said(colour, share):
    """The style of one colour below one share."""
    return "#" + bytes(blended(np.uint8([colour]), np.array([share]))[0]).hex()


def test_half_blocks_have_the_blended_colours_of_picture_and_heat():
    lines = patch_lines(Patches(shares(), PICTURE), TRUE)
    hexes = [style for line in lines[:-1] for text, style in line if "▀" in text]
    upper = {one.split(" on ")[0] for one in hexes}

    assert {said((255, 0, 0), 0.0), said((255, 0, 0), 1.0), said((0, 0, 0), 0.0)} <= upper


def test_the_bright_patch_stands_where_it_is():
    """Row 1, column 4 of 4 × 6 patches, each drawn as 8 × 8 half characters."""
    lines = patch_lines(Patches(shares(), PICTURE), TRUE)
    bright = said((255, 0, 0), 1.0)
    found = set()
    for n, line in enumerate(lines[:-1]):
        at = -cells(line[0][0])
        for text, style in line:
            if style.startswith(bright):
                found |= {(n, at + m) for m in range(len(text))}
            at += cells(text)
    assert found == {(n, m) for n in range(4, 8) for m in range(32, 40)}


def test_without_a_picture_or_its_colours_there_is_the_heat():
    for paper, patches in ((TRUE, Patches(shares())), (SOME, Patches(shares(), PICTURE))):
        text = "\n".join(plain(patch_lines(patches, paper)))
        assert "▀" in text
    assert "@" in "\n".join(plain(patch_lines(Patches(shares(), PICTURE), MONO)))


@pytest.mark.parametrize(
    "paper", [TRUE, SOME, MONO, Paper(30, 12, "true"), Paper(24, is_ascii=True)]
)
@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (40, 3), (64, 64), (7, 129), (128, 96)])
def test_nothing_is_wider_than_the_paper(paper, shape):
    found = np.random.default_rng(0).random(shape)
    lines = patch_lines(Patches(found, PICTURE), paper)
    assert max(map(cells, plain(lines))) <= paper.width


def test_pooled_squares_hold_the_largest():
    step = pooling_step((128, 128), MONO)
    assert step > 1
    found = np.full((128, 128), np.nan)
    found[100, 3] = 1.0
    text = plain(patch_lines(Patches(found), MONO))
    assert sum("@" in line for line in text) == 1
