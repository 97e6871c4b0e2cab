"""A training run as a page carries it: what the server would answer, in what room there is."""

from __future__ import annotations

import subprocess
import sys
import zlib

import numpy as np
import pytest

from regard.recording import Memory, Recording, Writer, open
from regard.recording.format.write import extend
from regard.viewer import answers
from regard.viewer.carried import carried_recording
from regard.viewer.carried_training import _rounded, carry_training
from regard.viewer.notebook import page_title, recording_page
from regard.viewer.opened import Opened
from support.recordings import on_disk, write_training
from viewer.shell import Elements, facts_of, use_small_page

WORDS = {"max_score": "largest score", "peak": "heaviest key"}


def _noted(store, samples=30, maps=(), heads=4):
    values = np.random.default_rng(0).normal(5, 1, (samples, 2, heads)).astype(np.float32)
    values[:, 1, -1] = np.nan
    pooled = [(*one, np.random.default_rng(one[1]).random((6, 5), np.float32)) for one in maps]
    return write_training(store, values, WORDS, steps=np.arange(samples) * 10, maps=pooled)


def _bare(*given, **options):
    return Opened(Recording(_noted(Memory(), *given, **options)))


def _strips(run, name, first=1):
    """As the page takes them apart."""
    own = run.facts["strips"][name]
    planes, bins, cells, _ = own["sizes"].values()
    content = zlib.decompress(run.blobs[own["blob"] - first])
    wide = np.frombuffer(content, "<f8", 2 * bins + cells)
    narrow = np.frombuffer(content, "<f4", offset=wide.nbytes)
    return wide, narrow[: planes * bins * cells].reshape(planes, bins, cells)


def test_what_fits_is_what_the_server_says():
    opened = _bare()
    run = carry_training(opened, 100_000)
    assert run.words == [] and run.size == "30 sampled steps of 7 heads"
    assert run.facts["facts"] == answers.training(opened) | {"revision": 0}
    for name in WORDS:
        content = zlib.decompress(run.blobs[run.facts["strips"][name]["blob"] - 1])
        assert content == answers.strips(opened, name).tobytes()


def test_the_loss_comes_along_in_the_same_bins():
    values = np.random.default_rng(0).random((400, 2, 4), np.float32)
    loss = np.linspace(4, 1, 400)
    loss[7] = np.nan
    opened = Opened(Recording(write_training(Memory(), values, WORDS, loss=loss)))
    run = carry_training(opened, 2000)
    assert run.facts["facts"]["loss"]["first_not_finite"] == 7
    sizes = {name: one["sizes"]["bins"] for name, one in run.facts["strips"].items()}
    assert list(sizes) == ["loss", *WORDS] and len(set(sizes.values())) == 1
    _, planes = _strips(run, "loss")
    assert sizes["loss"] < 400 and planes[2, 0, 1] == 1 and not planes[2, 1:, 1].any()


@pytest.mark.parametrize(("share", "bins"), [(0.9, 400), (0.7, 100), (0.1, 12), (0.0, 1)])
def test_less_room_means_fewer_digits_then_fewer_bins(share, bins):
    """Parts of what every digit takes. A bin has three numbers, so there must be few to help."""
    opened = _bare(400)
    exact = carry_training(opened, 100_000)
    assert exact.words == []
    room = int(sum(map(len, exact.blobs)) * share)
    run = carry_training(opened, room)
    assert run.facts["strips"]["peak"]["sizes"]["bins"] == bins
    assert "Its numbers are rounded to four digits." in run.words
    said = f"Its 400 sampled steps are drawn in {bins} bin"
    assert any(one.startswith(said) for one in run.words) == (bins < 400)
    wide, planes = _strips(run, "max_score")
    right = answers.strips(opened, "max_score", bins)
    np.testing.assert_allclose(planes, right.planes, rtol=2e-4)
    assert np.isnan(planes).any()  # of the head that was not heard
    np.testing.assert_array_equal(wide[:bins], right.first)
    np.testing.assert_array_equal(wide[2 * bins :], right.over)
    assert bins == 1 or sum(map(len, run.blobs)) <= room


def test_rounding_keeps_what_is_no_number():
    found = _rounded(np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -3e-39, 3.4e38], np.float32))
    assert np.isnan(found[0]) and found[1:5].tolist() == [np.inf, -np.inf, 0.0, 1.0]
    np.testing.assert_allclose(found[5:], [-3e-39, 3.4e38], rtol=2e-4)


def test_maps():
    stored = [(head, step) for head in ("L0H0", "cross.L1H2") for step in range(0, 80, 10)]
    opened = _bare(maps=stored)
    run = carry_training(opened, 100_000, first=5)
    assert run.words == [] and run.facts["facts"]["maps"] == opened.recording.training.maps
    for head, own in run.facts["maps"].items():
        numbers = np.frombuffer(zlib.decompress(run.blobs[own["blob"] - 5]), "<f4")
        for n, one in enumerate(own["stored"]):
            assert (one["rows"], one["columns"]) == (6, 5)
            right = opened.recording.training.map(head, one["step"])
            np.testing.assert_array_equal(numbers[30 * n : 30 * (n + 1)].reshape(6, 5), right)


def test_fewer_maps_where_there_is_less_room():
    stored = [(head, step) for head in ("L0H0", "L1H2") for step in range(0, 80, 10)]
    run = carry_training(_bare(maps=stored), 2_500)
    kept = run.facts["facts"]["maps"]
    assert set(kept) == {"L0H0", "L1H2"} and all(own[-1] == 70 for own in kept.values())
    number = sum(map(len, kept.values()))
    assert 2 <= number < 16 and f"{number} of its 16 stored maps are here." in run.words
    run = carry_training(_bare(maps=stored), 10)
    assert run.facts["maps"] == {} and "0 of its 16 stored maps are here." in run.words


def test_nothing_monitored_nothing_carried(tmp_path):
    with open(on_disk(tmp_path / "run.regard")) as recording:
        assert carry_training(Opened(recording), 1000) is None
        _, blobs = carried_recording(recording)
        assert facts_of(blobs)["training"] is None


def test_a_run_alone():
    recording = _bare().recording
    data, blobs = carried_recording(recording)
    facts = facts_of(blobs)
    assert data["carries"]["heads"] == [] and facts["heads"] == {} and facts["findings"] is None
    assert "carries the training run" in data["carries"]["words"][0]
    assert facts["training"]["facts"]["samples"] == 30
    assert [own["blob"] for own in facts["training"]["strips"].values()] == [1, 2]
    assert page_title(recording).endswith("training")


def test_a_run_beside_heads(tmp_path):
    """Blobs of heads come behind those of the run; named heads come without it."""
    path = on_disk(tmp_path / "run.regard")
    with extend(path) as writer:
        _noted(writer, maps=[("L0H0", 10)])
    with open(path) as recording:
        data, blobs = carried_recording(recording)
        facts = facts_of(blobs)
        assert "The training run is here: 30 sampled steps of 7 heads." in data["carries"]["words"]
        used = [own["blob"] for own in facts["training"]["strips"].values()]
        used += [own["blob"] for own in facts["training"]["maps"].values()]
        used += [head["carried"]["blob"] for head in facts["heads"].values()]
        assert used == list(range(1, len(blobs))) and len(facts["heads"]) > 1
        assert facts_of(carried_recording(recording, heads="L0H1")[1])["training"] is None


def test_the_page_of_a_notebook(monkeypatch):
    use_small_page(monkeypatch)
    page = recording_page(_bare().recording)
    assert '"heads":[]' in Elements(page).text("script", id="regard-data")


def test_no_server_is_needed(tmp_path):
    path = tmp_path / "run.regard"
    with Writer(path) as writer:
        _noted(writer)
    program = (
        "import sys; sys.modules['starlette'] = sys.modules['torch'] = None\n"
        "from regard.recording import open\n"
        "from regard.viewer.carried import carried_recording\n"
        f"print(len(carried_recording(open({str(path)!r}))[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "3", done.stderr
