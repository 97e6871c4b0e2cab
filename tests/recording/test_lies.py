"""Lying notes and tensors under right checksums: whatever is asked of them, by the library, by
reports, pages or exports, ends in an answer or in an error of regard."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recording.test_hostile_notes import BASE, LIES, copied, others, put
from regard.draw import Paper
from regard.draw.pages import overview_lines
from regard.errors import RegardError
from regard.export import ARRAYS, make_arrays, write_csv, write_npz
from regard.recording import Memory, Recording
from regard.study import compare_recordings, make_report
from regard.viewer.carried import carried_recording
from regard.views.parts import Selection
from regard.views.table import TABLES

MORE = LIES | {
    "no rows": put(rows=[0, 0]),
    "no rows at the end": put(rows=[25, 25]),
    "one row": put(rows=[24, 25]),
    "no queries": put(rows=[0, 0], queries=0, segments=[]),
    "the last head alone": put(heads=[3], total_heads=4),
    "dimensions beyond": put(dim=2**40),
    "no values": put(value_dim=0),
    "a bin for all": put(row_bin=2**20, key_bin=2**20, top_every=2**20),
    "one large cell": put(pool_cell=2**31),
    "not exact": put(exact=False),
}


def exports(rec: Recording, folder: Path) -> None:
    """Every table and every array of every head."""
    for what in TABLES:
        with_error(lambda what=what: write_csv(rec.table(what, top=3), folder / "a.csv"))
    for prompt in range(len(rec.prompts)):
        for label in rec.prompts[prompt].labels():
            for what in ("rows", "top", "received", "weights"):
                with_error(
                    lambda what=what, label=label, prompt=prompt: write_csv(
                        rec.table(what, heads=label, prompt=prompt, top=3), folder / "a.csv"
                    )
                )
            whole = list(Selection(rec, label, prompt).parts())
            for what in ARRAYS:
                with_error(
                    lambda what=what, whole=whole: write_npz(
                        make_arrays((what,), whole, 3), folder / "a.npz", {}, lambda _: None
                    )
                )


def with_error(ask: Callable[[], Any]) -> None:
    """An answer, or an error of regard; any other is the test's."""
    with suppress(RegardError):
        ask()


def ask_everything(store: Memory, folder: Path) -> None:
    try:
        rec = Recording(store)
    except RegardError:
        return
    with_error(lambda: make_report(rec, 0).as_dict())
    with_error(lambda: compare_recordings(rec, rec).as_dict())
    with_error(lambda: overview_lines(rec, 0, "non_sink", Paper(width=80)))
    with_error(lambda: carried_recording(rec, limit=10**7))
    with_error(lambda: exports(rec, folder))


def test_the_recording_itself_answers_all_of_it(tmp_path):
    rec = Recording(copied())
    assert make_report(rec, 0).heads and compare_recordings(rec, rec).as_dict()
    assert carried_recording(rec, limit=10**7)
    exports(rec, tmp_path)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", list(MORE))
def test_a_lie_in_a_note(name, tmp_path):
    ask_everything(copied(MORE[name]), tmp_path)


def numbers(array: Any) -> list[Any]:
    """The same shape and kind, other values."""
    if array.dtype.kind in "iu":
        largest = np.iinfo(array.dtype).max
        return [np.full_like(array, n) for n in (largest, largest // 2, 100)]
    wild = np.random.default_rng(0).standard_normal(array.shape) * 1e30
    return [wild.astype(array.dtype), np.full_like(array, np.inf)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [n for n in BASE.entries if not n.endswith(("/10", "/20"))])
def test_a_lie_in_a_tensor(name, tmp_path):
    real = BASE.words(name)
    for other in itertools.chain(others(real)[4:6], others(real)[-4:], numbers(real)):
        ask_everything(copied(tensors={name: other}), tmp_path)


@pytest.mark.parametrize("key", [-2, 25, 2**31 - 1, -(2**31)])
def test_a_key_that_does_not_exist_is_told(key):
    real = BASE.words("P0/L0/top_keys/0")
    lying = np.full(real.shape, key, np.int32)
    with pytest.raises(RegardError, match="P0/L0/top_keys/0"):
        assert Recording(copied(tensors={"P0/L0/top_keys/0": lying}))["L0H0"].stored["top_keys"]
