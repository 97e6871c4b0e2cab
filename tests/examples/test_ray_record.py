"""Documents by Ray Data: on a local Ray where it is installed; and, everywhere, the same script
over a stand-in that does what `map_batches` does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import regard
from examples.scripts import call, load
from recorder import actors
from recorder.texts import arrays_of, documents, recorded, save_model, write_jsonl
from regard.recorder.documents import CorpusRequest
from regard.recorder.shards import RecordOptions

ray_record = load("ray_record")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("words"))


class DataSet:
    """As much of a Ray data set as the script uses."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def map_batches(self, actor: Any, **options: Any) -> DataSet:
        return DataSet(actors.map_batches(self._rows, actor, **options))

    def take_all(self) -> list[dict[str, Any]]:
        return self._rows


def stand_in() -> Any:
    context = SimpleNamespace(execution_options=SimpleNamespace(preserve_order=False))
    data = SimpleNamespace(
        from_items=DataSet, DataContext=SimpleNamespace(get_current=lambda: context)
    )
    return SimpleNamespace(data=data)


def check(folder: Path, model: Path, source: Path, tmp_path: Path) -> None:
    """Every document once, and as the command records it."""
    with regard.open(folder) as rec:
        assert rec.merged().documents == len(rec.prompts) == 7
        assert len(rec.files) == 3
        np.testing.assert_allclose(np.asarray(rec.prompt(3)["L0H0"]).sum(-1), 1, atol=1e-5)
    recorded(model, CorpusRequest(source, tmp_path / "command", RecordOptions(), per_file=3))
    assert arrays_of(folder) == arrays_of(tmp_path / "command")


def words(source: Path, folder: Path, model: Path) -> list[str]:
    return [str(source), str(folder), "--model", str(model), "--actors", "2", "--batch", "3"]


def test_the_script_over_a_stand_in(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", stand_in())
    source = write_jsonl(tmp_path / "d.jsonl", documents(7))
    for _ in range(2):  # the second time nothing is recorded again
        status, out = call(ray_record, *words(source, tmp_path / "out", model))
        assert status == 0, out
        tokens = sum(len(text.split()) for text in documents(7))
        assert f"7 documents, {tokens} tokens, 3 files" in out and "mean entropy" in out
    check(tmp_path / "out", model, source, tmp_path)


def test_a_bad_document_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", stand_in())
    source = write_jsonl(tmp_path / "d.jsonl", ["the sea", " "])
    with pytest.raises(regard.errors.InputError, match=r"d\.jsonl:2: empty"):
        ray_record.record(source, tmp_path / "out", str(model), 1, 2)


@pytest.fixture
def local_ray(monkeypatch):
    """Two processes of this machine; nothing is reported to anybody, nothing served."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    places = [str(Path(actors.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, places)))  # for its processes
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False)
    yield ray
    ray.shutdown()


def test_two_workers_of_a_local_ray_one_killed(local_ray, model, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_record, "BatchRecorder", actors.Mortal)
    source = write_jsonl(tmp_path / "d.jsonl", documents(7))
    rows = ray_record.record(source, tmp_path / "out", str(model), 2, 3)
    killed = int((tmp_path / "killed").read_text())
    pids = {int(sign.name.partition("-")[2]) for sign in tmp_path.glob("actor-*")}
    assert killed in pids and len(pids) >= 3  # two, and what came for the one that was killed
    assert len(rows) == 3 * 12  # files × heads
    assert {"file", "head", "rows", "entropy", "max_score"} <= set(rows[0])
    assert not list((tmp_path / "out").glob(".*"))
    check(tmp_path / "out", model, source, tmp_path)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()}
    assert ray_record.record(source, tmp_path / "out", str(model), 2, 3) == rows
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()}
