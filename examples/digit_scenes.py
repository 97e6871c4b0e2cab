"""Canvases with two of scikit-learn's handwritten digits, and what can be said about them.

The digits (8 × 8 pixels, 1,797 of them, in the scikit-learn package) are made twice as large and
laid on a canvas of 64 × 64 pixels, over noise, more or less bright. A model that cuts the canvas
into 8 × 8 patches finds each digit in four of them: digits lie on the lines between patches, which
saves most of the training that digits anywhere would need. The two differ and do not touch. The
caption names the left one first where they are further apart sideways, else the upper one:

    three left of seven
    eight above one
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

__all__ = ["BOX", "CANVAS", "PATCH", "WORDS", "Scene", "Scenes"]

CANVAS, PATCH, BOX = 64, 8, 16  # pixels a side of a canvas, a patch and a digit
APART = BOX + PATCH  # pixels between the corners of two digits, in one direction at least
PLACES = (CANVAS - BOX) // PATCH + 1  # of a digit, a side
DIM = 0.6  # brightness of the darkest digit
NOISE = 0.08  # standard deviation; a digit's brightest pixel is 1
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True)
class Scene:
    """A canvas (64, 64) of bytes; of each digit, in the caption's order, its name and corner."""

    canvas: NDArray[np.uint8]
    digits: tuple[int, int]
    corners: tuple[tuple[int, int], tuple[int, int]]  # (y, x), pixels

    @property
    def caption(self) -> str:
        """Such as "three left of seven"."""
        (y, x), (v, u) = self.corners
        relation = "left of" if abs(u - x) >= abs(v - y) else "above"
        return f"{WORDS[self.digits[0]]} {relation} {WORDS[self.digits[1]]}"

    def patches(self, which: int) -> NDArray[np.bool_]:
        """(8, 8): the four patches that a digit lies in."""
        found = np.zeros((CANVAS // PATCH, CANVAS // PATCH), bool)
        top, left = self.corners[which]
        rows, columns = (slice(at // PATCH, (at + BOX) // PATCH) for at in (top, left))
        found[rows, columns] = True
        return found

    @property
    def rgb(self) -> NDArray[np.uint8]:
        """(64, 64, 3), as picture files have it."""
        return np.repeat(self.canvas[:, :, None], 3, axis=2)


class Scenes:
    """Draws scenes from one part of the digits: those to learn from, or those held out."""

    def __init__(self, seed: int, held_out: bool = False) -> None:
        digits = load_digits()
        mine = np.arange(len(digits.target)) % 6 == 0  # every sixth is held out
        mine = mine if held_out else ~mine
        self._pictures = _enlarged(digits.images[mine] / 16)
        self._names = digits.target[mine]
        self._dice = np.random.default_rng([seed, held_out])

    def draw(self, count: int) -> list[Scene]:
        """The next ones."""
        which, corners = self._pairs(count), self._corners(count)
        canvases = np.abs(self._dice.normal(0, NOISE, (count, CANVAS, CANVAS)))
        light = self._dice.uniform(DIM, 1, (count, 2)).tolist()
        apart = np.abs(corners[:, 0] - corners[:, 1])
        along = (apart[:, 1] >= apart[:, 0]).astype(int)  # beside each other: by x, else by y
        places = np.take_along_axis(corners, along[:, None, None], 2)[:, :, 0]
        order = np.argsort(places, axis=1)
        which = np.take_along_axis(which, order, 1)
        corners = np.take_along_axis(corners, order[:, :, None], 1)
        found = []
        for canvas, two, places, bright in zip(
            canvases, which, corners.tolist(), light, strict=True
        ):
            for one, (y, x), by in zip(two, places, bright, strict=True):
                canvas[y : y + BOX, x : x + BOX] += by * self._pictures[one]
            shades = np.rint(np.clip(canvas, 0, 1) * 255).astype(np.uint8)
            first, second = (int(self._names[one]) for one in two)
            (a, b), (c, d) = places
            found.append(Scene(shades, (first, second), ((a, b), (c, d))))
        return found

    def _pairs(self, count: int) -> NDArray[np.int64]:
        """(count, 2) pictures of two different digits."""
        found = self._dice.integers(len(self._names), size=(count, 2))
        while (same := self._names[found[:, 0]] == self._names[found[:, 1]]).any():
            found[same, 1] = self._dice.integers(len(self._names), size=int(same.sum()))
        return found

    def _corners(self, count: int) -> NDArray[np.int64]:
        """(count, 2, 2): y and x of each digit's corner, far enough from the other's."""
        found = PATCH * self._dice.integers(PLACES, size=(count, 2, 2))
        while (near := np.abs(found[:, 0] - found[:, 1]).max(1) < APART).any():
            found[near] = PATCH * self._dice.integers(PLACES, size=(int(near.sum()), 2, 2))
        return found


def _enlarged(pictures: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 8, 8) → (n, 16, 16): each pixel's neighbours blend into it (3 : 1)."""
    for axis in (1, 2):
        padded = np.concatenate(
            [pictures.take([0], axis), pictures, pictures.take([-1], axis)], axis
        )
        n = pictures.shape[axis]
        inner, before, after = (padded.take(range(start, start + n), axis) for start in (1, 0, 2))
        halves = np.stack([3 * inner + before, 3 * inner + after], axis + 1) / 4
        shape = [*pictures.shape]
        shape[axis] *= 2
        pictures = halves.reshape(shape)
    return pictures
