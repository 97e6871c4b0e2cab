"""The Jensen-Shannon distance."""

from __future__ import annotations

import numpy as np
import pytest

from regard import study
from regard.study.divergence import js_of_masses


def test_against_its_definition() -> None:
    dice = np.random.default_rng(0)
    p, q = dice.dirichlet(np.ones(9), 5), dice.dirichlet(np.ones(9), 5)
    m = (p + q) / 2
    bits = (p * np.log2(p / m) + q * np.log2(q / m)).sum(-1) / 2
    np.testing.assert_allclose(study.js_distance(p, q), np.sqrt(bits), rtol=1e-12)
    np.testing.assert_allclose(study.js_distance(p, q), study.js_distance(q, p))


def test_equal_and_disjoint() -> None:
    p = np.array([0.5, 0.5, 0.0])
    assert study.js_distance(p, p) == 0
    assert study.js_distance(p, [0, 0, 1.0]) == pytest.approx(1)


def test_what_the_other_side_does_not_have() -> None:
    """The same as with those things written out."""
    wide = study.js_distance([0.6, 0.4, 0.0], [0.7, 0.0, 0.3])
    assert study.js_distance([0.6], [0.7], apart=0.4 + 0.3) == pytest.approx(float(wide))
    assert study.js_distance([0.0], [0.0], apart=2.0) == 1


def test_masses_are_compared_as_shares() -> None:
    assert js_of_masses([2, 6], [1, 3]) == 0
    assert js_of_masses([0, 0], [0, 0]) == 0 and js_of_masses([0, 0], [1, 0]) == 1
