"""How vectors change, and attribution by norms: definitions on numbers small enough to check by
hand, and laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import study
from regard.errors import InputError, ShapeError, UnavailableError
from regard.recording import Recording
from regard.study.contextual import centred, contextual_change, cosine, told_apart
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


def layers(count: int = 3, tokens: int = 5, width: int = 8) -> tuple[np.ndarray, ...]:
    """hidden, attention, mlp that add up."""
    attention, mlp = DICE.normal(size=(2, count, tokens, width))
    first = DICE.normal(size=(1, tokens, width))
    hidden = np.concatenate([first, first + np.cumsum(attention + mlp, axis=0)])
    return hidden, attention, mlp


def test_centring_takes_each_layer_s_mean_off() -> None:
    states = layers()[0] + 100
    np.testing.assert_allclose(centred(states).mean(1), 0, atol=1e-12)
    some = centred(states[:, :2], around=states)
    np.testing.assert_allclose(some, centred(states)[:, :2])


def test_a_common_part_hides_differences() -> None:
    states = np.array([[[101.0, 0], [99, 0], [100, 1], [100, -1]]])
    assert cosine(states[:, 0], states[:, 1]) > 0.999
    assert cosine(*(centred(states)[:, n] for n in (0, 1))) == pytest.approx(-1)


def test_shares_of_a_step_make_one() -> None:
    hidden, attention, mlp = layers()
    found = contextual_change(hidden, attention, mlp)
    np.testing.assert_allclose(found.attention + found.mlp, 1)
    assert found.stays.shape == found.step.shape == (3, 5)
    assert found.origin.shape == (4, 5)
    np.testing.assert_allclose(found.origin[0], 1)
    np.testing.assert_allclose(found.origin[1], found.stays[0])


def test_a_constant_added_to_a_layer_changes_nothing() -> None:
    hidden, attention, mlp = layers()
    drift = DICE.normal(size=(3, 1, 8)) * 50
    moved = np.concatenate([hidden[:1], hidden[1:] + np.cumsum(drift, axis=0)])
    one, other = contextual_change(hidden, attention, mlp), contextual_change(moved, attention, mlp)
    np.testing.assert_allclose(other.stays, one.stays)
    np.testing.assert_allclose(other.attention, one.attention)


def test_by_hand() -> None:
    hidden = [[[1.0, 0], [-1, 0]], [[1, 2], [-1, -2]]]
    attention = [[[0.0, 3], [0, -3]]]
    mlp = [[[0.0, -1], [0, 1]]]
    found = contextual_change(hidden, attention, mlp)
    np.testing.assert_allclose(found.step, 2)
    np.testing.assert_allclose(found.stays, 1 / np.sqrt(5))
    np.testing.assert_allclose(found.attention, 1.5)
    np.testing.assert_allclose(found.mlp, -0.5)  # it pulled back


def test_no_step_has_no_shares() -> None:
    still = np.ones((2, 3, 4)) * np.arange(3)[None, :, None]
    found = contextual_change(still, np.zeros((1, 3, 4)), np.zeros((1, 3, 4)))
    assert not found.attention.any()
    assert not found.step.any()


def test_senses_that_part_in_one_layer_from_the_start_or_never() -> None:
    mixed = DICE.normal(size=(1, 6, 16))
    apart = DICE.normal(size=(2, 6, 16)) * 0.1
    apart[:, :3, 0] += 1
    apart[:, 3:, 0] -= 1
    parted = told_apart(np.concatenate([mixed, apart]), ["river"] * 3 + ["money"] * 3)
    assert parted.separates == 1 and parted.nearest[1:].tolist() == [1, 1]
    assert np.all(parted.gap[1:] > 1) and abs(parted.gap[0]) < 0.5
    vectors = np.array([[[1.0, 0], [1, 0.1], [-1, 0], [-1, 0.1]]] * 2)
    assert told_apart(vectors, [0, 0, 1, 1]).separates == 0
    same = np.tile(np.array([1.0, 0, -1, 0, 1, 0, -1, 0]).reshape(1, 4, 2), (3, 1, 1))
    never = told_apart(same, ["a", "a", "b", "b"])
    assert never.separates is None and np.all(never.nearest < 1)


def test_what_does_not_fit_is_refused() -> None:
    hidden, attention, mlp = layers()
    with pytest.raises(ShapeError, match=r"give \(layers \+ 1, tokens, width\)"):
        contextual_change(hidden[1:], attention, mlp)
    with pytest.raises(ShapeError, match="same layers and width"):
        centred(hidden, around=hidden[:2])
    with pytest.raises(ShapeError, match=r"give \(layers, tokens, width\)"):
        centred(np.ones((3, 4)))
    with pytest.raises(ShapeError, match="give one for each"):
        told_apart(hidden, ["a", "b"])
    with pytest.raises(InputError, match="at least two, each at least twice"):
        told_apart(hidden, ["a", "a", "b", "b", "c"])
