"""The same files by an actor that is handed batches."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import regard
from recorder.actors import map_batches
from recorder.texts import arrays_of, documents, recorded, write_jsonl
from regard.errors import InputError
from regard.recorder import BatchRecorder
from regard.recorder import documents as running
from regard.recorder.documents import CorpusRequest
from regard.recorder.shards import RecordOptions
from regard.recording import STATISTICS

ROWS = [{"name": f"d.jsonl:{n + 1}", "text": text} for n, text in enumerate(documents(7))]


def mapped(model, folder, rows=ROWS, **options):
    return map_batches(
        rows, BatchRecorder, batch_size=3, concurrency=2,
        fn_constructor_args=(str(model), str(folder)),
        fn_constructor_kwargs={"names": "name"} | options,
    )  # fmt: skip


def test_a_row_for_each_head_of_each_file(words_model, tmp_path):
    found = mapped(words_model, tmp_path)
    files = sorted({row["file"] for row in found})
    assert files == sorted(one.name for one in tmp_path.iterdir()) and len(files) == 3
    assert len(found) == 3 * 12
    for file in files:
        with regard.open(tmp_path / file) as rec:
            mine = [row for row in found if row["file"] == file]
            merged = rec.merged()
            assert [row["head"] for row in mine] == merged.labels()
            assert {row["documents"] for row in mine} == {len(rec.prompts)}
            assert {row["tokens"] for row in mine} == {merged.tokens}
            for name in STATISTICS:
                np.testing.assert_array_equal([r[name] for r in mine], merged.numbers()[name])


def test_rows_weigh_by_how_many_rows_they_are_of(words_model, tmp_path):
    found = [row for row in mapped(words_model, tmp_path) if row["head"] == "L1H2"]
    mean = np.average([row["entropy"] for row in found], weights=[row["rows"] for row in found])
    with regard.open(tmp_path) as rec:
        merged = rec.merged()
        assert merged.documents == 7
        np.testing.assert_allclose(merged.grid("entropy")[1, 2], mean, rtol=1e-12)
        assert merged.grid("max_score")[1, 2] == max(row["max_score"] for row in found)


def test_they_are_the_documents_that_the_command_records(words_model, tmp_path):
    mapped(words_model, tmp_path / "actors")
    path = write_jsonl(tmp_path / "d.jsonl", documents(7))
    recorded(words_model, CorpusRequest(path, tmp_path / "command", RecordOptions(), per_file=3))
    assert arrays_of(tmp_path / "actors") == arrays_of(tmp_path / "command")


def test_a_batch_that_is_tried_again_is_not_recorded_twice(words_model, tmp_path, monkeypatch):
    found = mapped(words_model, tmp_path)
    before = {one.name: one.stat().st_mtime_ns for one in tmp_path.iterdir()}

    def never(*_: object) -> None:
        raise AssertionError("it is there already")

    monkeypatch.setattr(running.ShardRecorder, "write", never)
    again = mapped(words_model, tmp_path)
    assert before == {one.name: one.stat().st_mtime_ns for one in tmp_path.iterdir()}
    for a, b in zip(found, again, strict=True):
        np.testing.assert_equal(a, b)


def test_other_options_make_another_file(words_model, tmp_path):
    mapped(words_model, tmp_path, rows=ROWS[:3])
    mapped(words_model, tmp_path, rows=ROWS[:3], layers="0")
    assert len(list(tmp_path.iterdir())) == 2


def test_without_names(words_model, tmp_path):
    actor = BatchRecorder(str(words_model), tmp_path / "new" / "folder", texts="body")
    actor({"body": np.array(["the sea", "the sea"]), "more": np.array([1, 2])})
    with regard.open(tmp_path / "new" / "folder") as rec:
        assert len(rec.prompts) == 2 and len({one.title for one in rec.prompts}) == 1
        assert rec.merged().documents == 2  # the same words twice are two documents


def test_wrong_batches_are_told_by_name(words_model, tmp_path):
    actor = BatchRecorder(str(words_model), tmp_path, names="name")
    with pytest.raises(InputError, match="no column 'text'; its columns are 'name', 'body'"):
        actor({"name": ["a"], "body": ["x"]})
    with pytest.raises(InputError, match=r"b: .*64 positions"):
        actor({"name": ["a", "b"], "text": ["the sea", "the sea " * 50]})
    with pytest.raises(InputError, match="b: the text is empty"):
        actor({"name": ["a", "b"], "text": ["the sea", " "]})
    with pytest.raises(InputError, match="b: a NoneType in 'text'"):
        actor({"name": ["a", "b"], "text": ["the sea", None]})
    assert not list(tmp_path.iterdir())


def test_an_empty_batch_is_no_file_and_no_row(words_model, tmp_path):
    full = BatchRecorder(str(words_model), tmp_path / "full")({"text": np.array(["the sea"])})
    found = BatchRecorder(str(words_model), tmp_path / "none")({"text": np.array([], str)})
    assert list(found) == list(full) and not any(len(column) for column in found.values())
    assert [found[name].dtype.kind for name in found] == [full[name].dtype.kind for name in full]
    assert not list((tmp_path / "none").iterdir())


def test_the_class_travels():
    assert pickle.loads(pickle.dumps(BatchRecorder)) is BatchRecorder
