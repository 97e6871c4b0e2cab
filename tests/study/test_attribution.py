"""Attribution by norms, against its definition written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import study
from regard.errors import ShapeError, UnavailableError
from regard.recording import Recording
from support.recordings import Chunk, write_recording

DICE = np.random.default_rng(0)


def test_one_head_with_its_output_projection() -> None:
    p, v, w_o = DICE.random(12), DICE.standard_normal((12, 5)), DICE.standard_normal((5, 7))
    found = study.output_attribution(p, v, w_o)
    expected = [np.linalg.norm(p[j] * v[j] @ w_o) for j in range(12)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_heads_are_added_before_the_norm_is_taken() -> None:
    p, v, w = (
        DICE.random((3, 12)),
        DICE.standard_normal((3, 12, 5)),
        DICE.standard_normal((3, 5, 7)),
    )
    moved = [sum(p[h, j] * v[h, j] @ w[h] for h in range(3)) for j in range(12)]
    np.testing.assert_allclose(study.output_attribution(p, v, w), np.linalg.norm(moved, axis=1))


def test_a_large_weight_on_a_value_of_no_length_moves_nothing() -> None:
    found = study.value_attribution([[0.9, 0.1]], [0.0, 3.0])
    np.testing.assert_allclose(found, [[0.0, 0.3]])


@pytest.mark.parametrize("key_bin", [1, 8])
def test_a_recorded_row_with_its_stored_norms(key_bin: int) -> None:
    recorded = _with_norms(key_bin)
    head = recorded["L0H3"]
    norms = np.repeat(head.stored["value_norm"].values, key_bin)[:50]
    np.testing.assert_allclose(study.head_attribution(head, 40), head[40] * norms, rtol=1e-6)


def _with_norms(key_bin: int) -> Any:
    store, _ = write_recording(chunks=[Chunk((0, 50), (0, 50), regard.Causal())], key_bin=key_bin)
    norms = DICE.random((2, -(-50 // key_bin))).astype(np.float32)
    if "P0/L0/value_norm/0" not in store.entries:
        store.add("P0/L0/value_norm/0", norms)
    return Recording(store)


def test_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"weights \(2,\) and value_norms \(3,\)"):
        study.value_attribution([1, 2], [1, 2, 3])
    with pytest.raises(ShapeError, match=r"w_o \(4, 2\); give \(heads, keys\)"):
        study.output_attribution(np.ones(3), np.ones((3, 5)), np.ones((4, 2)))
    store, _ = write_recording(chunks=[Chunk((0, 9), (0, 9))], statistics=False)
    with pytest.raises(UnavailableError, match="norms of its values were not recorded"):
        study.head_attribution(Recording(store)["L0H0"], 3)
