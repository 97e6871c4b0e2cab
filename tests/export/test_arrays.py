"""Arrays by name: those of a recording, made one at a time, read back bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open

from regard.errors import FileError, InputError, UnavailableError
from regard.export import as_arrays
from regard.export.arrays import Named, write_npz, write_safetensors
from regard.export.as_arrays import ARRAYS, KEPT, about, make_arrays
from regard.recording import STATISTICS
from regard.views.parts import HeadPart, Selection
from support.recordings import WORDS, in_memory

MADE = {
    "P0/L0H0/lse": np.arange(5, dtype=np.float32),
    "P0/L0H0/top_keys": np.arange(6, dtype=np.int32).reshape(3, 2),
    "empty": np.zeros((0, 4), np.float64),
    "P0/L0/q": np.ones((2, 3), np.float16),
}
FACTS = {"regard": "1", "tokens": '["猫"]'}


def named(name: str, array: np.ndarray) -> Named:
    """The array as one that is still to be made."""
    return Named(name, array.shape, array.dtype, lambda: array)


GIVEN = [named(name, array) for name, array in MADE.items()]


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Bits, shape and dtype."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert found.tobytes() == wanted.tobytes()


def test_npz(tmp_path):
    write_npz(GIVEN, tmp_path / "a.npz", FACTS)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        assert set(found) == {*MADE, "about/regard", "about/tokens"}
        for name, wanted in MADE.items():
            same(found[name], wanted)
        assert str(found["about/tokens"]) == '["猫"]'


def test_safetensors_as_its_own_library_reads_it(tmp_path):
    write_safetensors(GIVEN, tmp_path / "a.safetensors", FACTS)
    with safe_open(tmp_path / "a.safetensors", "numpy") as found:
        assert found.metadata() == FACTS and set(found.keys()) == set(MADE)
        for name, wanted in MADE.items():
            same(found.get_tensor(name), wanted)


@pytest.mark.parametrize("write", [write_npz, write_safetensors])
def test_arrays_are_made_one_at_a_time(tmp_path, write):
    order = []

    def noted(name: str) -> Named:
        return Named(name, (1,), np.dtype(np.float32), lambda: order.append(name) or np.ones(1))

    write([noted("a"), noted("b")], tmp_path / "x", {}, lambda n: order.append(n))
    assert order == ["a", 1, "b", 1]


def test_an_array_that_is_not_what_was_said(tmp_path):
    wrong = Named("a", (2,), np.dtype(np.float32), lambda: np.ones(3))
    with pytest.raises(FileError, match=r"a: \(3,\) instead of \(2,\)"):
        write_npz([wrong], tmp_path / "x", {})


def test_bytes_are_known_before():
    assert named("a", np.ones((3, 4), np.float16)).nbytes == 24


def everything(labels=None, **options):
    """A recording and its heads, all or some."""
    rec, made = in_memory(**options)
    return rec, list(Selection(rec, labels).parts()), made


def named_arrays(what, chosen, top=3):
    """By name."""
    return {one.name: one.array() for one in make_arrays(what, chosen, top)}


def test_without_a_wish_all_that_was_kept():
    rec, chosen, _ = everything()
    found = named_arrays(None, chosen)
    for name in STATISTICS:
        np.testing.assert_array_equal(found[f"P0/statistics/{name}"], rec.grid(name))
    for label in rec.labels():
        head = rec[label]
        for name in ("lse", "entropy", "output_norm", "received", "pooled"):
            wanted = head.stored[name].values
            np.testing.assert_array_equal(found[f"P0/{label}/{name}"], wanted)
        np.testing.assert_array_equal(found[f"P0/{label}/top_keys"], head.top(3).keys)
    np.testing.assert_array_equal(found["P0/tokens/ids"], rec.prompts[0].ids)
    assert set(KEPT) < set(ARRAYS)


def test_maps():
    rec, chosen, made = everything(["L1H1"])
    wanted = rec["L1H1"].stored["pooled"].values
    np.testing.assert_array_equal(named_arrays(["pooled"], chosen)["P0/L1H1/pooled"], wanted)
    _, chosen, made = everything(["L0H1"], statistics=False)
    found = named_arrays(["pooled"], chosen)["P0/L0H1/pooled"]
    np.testing.assert_allclose(found, made[0, 0].truth.weights()[1], rtol=1e-4, atol=1e-7)
    with pytest.raises(UnavailableError, match="budget of 1 kB"):
        named_arrays(["pooled"], everything(["L1H1"], statistics=False)[1])


def test_nothing_is_computed_without_a_wish():
    _, chosen, _ = everything(statistics=False)
    names = set(named_arrays(None, chosen))
    assert "P0/L1H0/lse" in names and not [name for name in names if "pooled" in name]


def test_weights():
    rec, chosen, _ = everything(["L0H1"])
    found = named_arrays(["weights"], chosen)
    np.testing.assert_array_equal(found["P0/L0H1/weights"], np.asarray(rec["L0H1"]))
    assert set(found) == {"P0/tokens/ids", "P0/L0H1/weights"}


def test_queries_and_keys():
    _, chosen, made = everything(["L0H1", "L0H2"])
    found = named_arrays(["qk"], chosen)
    truth = made[0, 0].truth
    np.testing.assert_array_equal(found["P0/L0H1/q"], truth.q[1].numpy())
    np.testing.assert_array_equal(found["P0/L0K0/k"], truth.k[0].numpy())
    assert set(found) == {
        "P0/tokens/ids", "P0/L0H1/q", "P0/L0H2/q", "P0/L0K0/k", "P0/L0K1/k",
    }  # fmt: skip


def test_bf16_comes_as_float32():
    _, chosen, made = everything(["L0H0"], dtype=torch.bfloat16)
    q = named_arrays(["qk"], chosen)["P0/L0H0/q"]
    assert q.dtype == np.float32
    np.testing.assert_array_equal(q, made[0, 0].truth.q[0].numpy())


def test_a_part():
    rec, _, _ = everything()
    one = HeadPart(rec.prompts[0], rec["L0H1"], range(6, 9), range(2, 5))
    found = named_arrays(["lse", "top", "received", "weights", "qk"], [one])
    np.testing.assert_array_equal(found["P0/L0H1/lse"], rec["L0H1"].lse[6:9])
    assert found["P0/L0H1/top_keys"].shape == (3, 3)
    assert found["P0/L0H1/received"].shape == (3,)
    np.testing.assert_array_equal(found["P0/L0H1/weights"], rec["L0H1"][6:9, 2:5])
    assert found["P0/L0H1/q"].shape == (3, 16) and found["P0/L0K0/k"].shape == (3, 16)


def test_bins_come_with_their_edges():
    _, chosen, _ = everything(["L1H0"], row_bin=5, key_bin=5, top_every=4)
    found = named_arrays(None, chosen)
    assert found["P0/L1H0/row_edges"].tolist() == [0, 5, 10, 12]
    assert found["P0/L1H0/received_edges"].tolist() == [0, 5, 10, 12]
    assert found["P0/L1H0/top_rows"].tolist() == [0, 4, 8]
    assert found["P0/L1H0/entropy"].shape == (3,)


def test_one_row_of_a_bin_comes_with_the_edges_of_its_bin():
    rec, _, _ = everything(row_bin=5)
    one = HeadPart(rec.prompts[0], rec["L1H0"], range(6, 7), range(12))
    found = named_arrays(["rows"], [one])
    assert found["P0/L1H0/row_edges"].tolist() == [5, 10] and "P0/L1H0/lse" not in found


def test_too_many_weights_are_refused(monkeypatch):
    _, chosen, _ = everything(["L0H1"])
    monkeypatch.setattr(as_arrays, "MOST_BYTES", 100)
    with pytest.raises(InputError, match=r"weights: .* GiB, more than"):
        make_arrays(["weights"], chosen, 3)


@pytest.mark.parametrize("what", ["weights", "qk"])
def test_single_cells_are_needed(what):
    with pytest.raises(UnavailableError, match=r"L1H0: it did not fit .*; name heads of other"):
        make_arrays([what], everything()[1], 3)


def test_the_model_and_the_tokens_come_along():
    rec, chosen, _ = everything(prompts=2)
    facts = about(chosen, rec.model)
    assert json.loads(facts["model"])["name"] == "tiny"
    assert json.loads(facts["P1/tokens"]) == WORDS


def test_arrays_are_known_before_they_are_made():
    _, chosen, _ = everything()
    for one in make_arrays(None, chosen, 3):
        made = one.array()
        assert (made.shape, made.dtype, made.nbytes) == (one.shape, one.dtype, one.nbytes)


def test_every_array_is_offered_and_none_is_named_twice():
    _, chosen, _ = everything(exact=(0, 1), prompts=2)
    names = [one.name for one in make_arrays(list(ARRAYS), chosen, 3)]
    kinds = {name.rpartition("/")[2] for name in names}
    assert {"lse", "top_keys", "received", "pooled", "weights", "q", "k", "sink"} <= kinds
    assert len(names) == len(set(names))  # though both rows and lse have an lse
