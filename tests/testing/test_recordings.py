"""The maker of recordings: what it writes can be opened, and the truth it gives is the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.mask import Causal, Window
from regard.recording import Alarm, Limit, Memory, Recording
from support import recordings
from support.recordings import STATES, Chunk

CHUNKS = [Chunk((0, 30), (0, 30), Causal()), Chunk((30, 50), (0, 50), Window(20))]


def same(rec: Recording, truth: Any) -> None:
    for n, head in enumerate(rec):
        np.testing.assert_allclose(head.dense(), truth.weights()[n], atol=1e-6)


def test_memory_and_a_file_hold_the_same(tmp_path: Path) -> None:
    store, made = recordings.write_recording(chunks=CHUNKS)
    path, again = recordings.write_recording(tmp_path / "a.regard", chunks=CHUNKS)
    same(Recording(store), made.truth)
    with regard.open(path) as rec:
        same(rec, again.truth)
        assert [*rec.store.entries] == [*store.entries]


def test_the_truth_is_wrong_about_another_text() -> None:
    store, _ = recordings.write_recording(chunks=CHUNKS)
    _, other = recordings.write_recording(chunks=CHUNKS, seed=1)
    with pytest.raises(AssertionError):
        same(Recording(store), other.truth)


def test_layers_and_prompts_have_truths_of_their_own(tmp_path: Path) -> None:
    rec, made = recordings.in_memory(layers=2, exact=(0, 1), prompts=2)
    for (prompt, layer), place in made.items():
        heads = [head for head in rec.prompts[prompt] if head.place.layer == layer]
        assert len(heads) == 4
        for n, head in enumerate(heads):
            np.testing.assert_allclose(head.dense(), place.truth.weights()[n], atol=1e-6)
    with regard.open(recordings.on_disk(tmp_path / "a.regard", prompts=2)) as file:
        assert file.labels() == rec.labels() and len(file.prompts) == 2


@pytest.mark.parametrize("name", STATES)
def test_every_state_opens(tmp_path: Path, name: str) -> None:
    with regard.open(recordings.make_state(tmp_path / "a.regard", name)) as rec:
        assert bool(rec.store.damage) == (name == "damaged")
        assert bool(rec.labels()) == (name != "empty")


def test_growing_is_live_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.regard"
    with recordings.growing(path) as writer:
        recordings.write_prompt(writer, CHUNKS)
        assert regard.open(path).store.is_live
    assert not regard.open(path).store.is_live


def test_ranks_are_one_recording(tmp_path: Path) -> None:
    _, made = recordings.write_recording(chunks=CHUNKS, pieces=8)
    for rank in range(2):
        recordings.write_rank(tmp_path, rank, CHUNKS)
    with regard.open(tmp_path) as rec:
        same(rec, made.truth)


def test_a_run_is_read_as_it_was_written() -> None:
    values = np.random.default_rng(0).random((4, 2, 3), np.float32)
    alarm, limit = Alarm("score growth", "L0H1", 30, "peak", 0.9, 0.5), Limit("above", 0.5)
    store = recordings.write_training(Memory(), values[:3], steps=[0, 10, 20])
    recordings.write_training(
        store, values[3:], steps=[30], start=3, alarms=[alarm], limits={"peak": limit},
        maps=[("L1H2", 30, np.eye(4))],
    )  # fmt: skip
    run = Recording(store).training
    assert run.steps.tolist() == [0, 10, 20, 30] and run.places == ("L0", "L1")
    np.testing.assert_array_equal(run["peak"], values)
    assert run.alarms == (alarm,) and run.limits == {"peak": limit}
    assert run.map("L1H2", 30).tolist() == np.eye(4).tolist()


def test_planted_heads_have_their_weights() -> None:
    ids = recordings.planted.text(24)
    p = recordings.planted.mixed(recordings.planted.targets(ids)["previous"], sink=0.25)
    rec = recordings.record_planted(p[None, None], ids)
    np.testing.assert_allclose(rec["L0H0"].dense(), p, atol=1e-6)
