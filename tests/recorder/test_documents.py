"""A folder of files: begun, resumed, refused. The same work in this process; for processes that
are killed see tests/cli/test_documents.py."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import regard
from recorder.actors import map_batches
from recorder.texts import Inline, arrays_of, documents, recorded, save_model, write_jsonl
from regard.errors import FileError, InputError
from regard.recorder import BatchRecorder
from regard.recorder import documents as running
from regard.recorder.documents import CorpusRequest, carry_out, claimed, gather, prepare
from regard.recorder.shards import ModelSpec, RecordOptions
from regard.recording import STATISTICS
from regard.recording.format.frames import lock
from regard.recording.shards import MANIFEST


@pytest.fixture
def asked(tmp_path) -> CorpusRequest:
    """Seven documents, three a file."""
    path = write_jsonl(tmp_path / "d.jsonl", documents(7))
    return CorpusRequest(path, tmp_path / "out", RecordOptions(), per_file=3)


def names(asked: CorpusRequest) -> list[str]:
    return sorted(one.name for one in asked.folder.iterdir())


def test_every_document_once_in_order(words_model, asked):
    files = [f"shard-0000{n}.regard" for n in range(3)]
    assert recorded(words_model, asked) == files
    assert names(asked) == [MANIFEST, *files]
    with regard.open(asked.folder) as rec:
        assert [one.title for one in rec.prompts] == [f"d.jsonl:{n + 1}" for n in range(7)]
        assert [" ".join(one.tokens) for one in rec.prompts] == documents(7)
        assert rec.merged().documents == 7


def test_the_manifest_tells_what_the_run_was(words_model, asked):
    recorded(words_model, asked)
    told = json.loads((asked.folder / MANIFEST).read_text())
    assert told["contents"] == "documents/1"
    assert told["documents"] == str(asked.documents)
    assert told["model"]["dtype"] == "float32" and len(told["model"]["fingerprint"]) == 64
    assert told["options"] == vars(RecordOptions())
    assert [one["documents"] for one in told["shards"]] == [3, 3, 1]
    assert len({one["digest"] for one in told["shards"]}) == 3


def test_again_there_is_nothing_to_do(words_model, asked):
    recorded(words_model, asked)
    before = {one.name: one.stat().st_mtime_ns for one in asked.folder.glob("*.regard")}
    assert recorded(words_model, asked) == []
    assert before == {one.name: one.stat().st_mtime_ns for one in asked.folder.glob("*.regard")}


@pytest.mark.parametrize("gone", [[0], [1], [0, 2], [0, 1, 2]])
def test_whatever_is_missing_is_made_and_nothing_else(words_model, asked, gone, tmp_path):
    recorded(words_model, asked)
    whole = arrays_of(asked.folder)
    for n in gone:
        (asked.folder / f"shard-0000{n}.regard").unlink()
    (asked.folder / ".shard-00001-abc.part").write_text("half")
    assert recorded(words_model, asked) == [f"shard-0000{n}.regard" for n in gone]
    assert arrays_of(asked.folder) == whole
    assert not list(asked.folder.glob(".*"))


def test_a_run_that_fails_keeps_what_was_whole_and_goes_on(words_model, asked, monkeypatch):
    real = running.ShardRecorder.write

    def write(self: Any, path: Any, *rest: Any) -> Any:
        if path.name == "shard-00001.regard":
            raise FileError("no space left")
        return real(self, path, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(running.ShardRecorder, "write", write)
        with pytest.raises(FileError, match="no space left"):
            recorded(words_model, asked)
    assert names(asked) == [MANIFEST, "shard-00000.regard"]
    assert recorded(words_model, asked) == ["shard-00001.regard", "shard-00002.regard"]


def test_more_documents_later(words_model, asked):
    recorded(words_model, asked)
    write_jsonl(asked.documents, documents(10))
    with pytest.raises(FileError, match=r"shard-00002\.regard: other documents.*--overwrite"):
        recorded(words_model, asked)
    assert recorded(words_model, replace(asked, overwrite=True)) == [
        "shard-00002.regard",
        "shard-00003.regard",
    ]
    with regard.open(asked.folder) as rec:
        assert [one.number for one in rec.prompts] == list(range(10))
        assert [" ".join(one.tokens) for one in rec.prompts] == documents(10)


def test_files_of_another_run_stay_until_all_that_replace_them_are_whole(
    words_model, asked, monkeypatch
):
    recorded(words_model, asked)
    before = {one.name: one.read_bytes() for one in asked.folder.iterdir()}
    over = replace(asked, options=RecordOptions(layers="0"), overwrite=True)
    real = running.ShardRecorder.write

    def write(self: Any, path: Any, *rest: Any) -> Any:
        if path.name == "shard-00001.regard":
            raise FileError("no space left")
        return real(self, path, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(running.ShardRecorder, "write", write)
        with pytest.raises(FileError, match="no space left"):
            recorded(words_model, over)
    files = [one for one in asked.folder.iterdir() if one.is_file()]
    assert {one.name: one.read_bytes() for one in files} == before
    assert [one.name for one in (asked.folder / "partial").iterdir()] == ["shard-00000.regard"]
    # the same command goes on from there
    assert recorded(words_model, over) == ["shard-00001.regard", "shard-00002.regard"]
    assert sorted(one.name for one in asked.folder.iterdir()) == sorted(before)
    assert recorded(words_model, replace(asked, options=RecordOptions(layers="0"))) == []


def test_fewer_documents_leave_no_file_of_before(words_model, asked):
    recorded(words_model, asked)
    write_jsonl(asked.documents, documents(7)[:3])
    with pytest.raises(FileError, match="this run has no such file"):
        recorded(words_model, asked)
    assert recorded(words_model, replace(asked, overwrite=True)) == []
    assert names(asked) == [MANIFEST, "shard-00000.regard"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (RecordOptions(generate=2), "generate 0 there, 2 now"),
        (RecordOptions(layers="0"), "layers None there, 0 now"),
        (RecordOptions(budget=10**6), "budget 2000000000 there, 1000000 now"),
    ],
)
def test_other_options_are_told_and_nothing_is_touched(words_model, asked, options, said):
    recorded(words_model, asked)
    before = {one.name: one.read_bytes() for one in asked.folder.iterdir()}
    with pytest.raises(FileError, match=said):
        recorded(words_model, replace(asked, options=options))
    assert before == {one.name: one.read_bytes() for one in asked.folder.iterdir()}
    over = replace(asked, options=options, overwrite=True)
    assert len(recorded(words_model, over)) == 3


def test_another_model_is_noticed_by_its_weights(words_model, asked, tmp_path):
    recorded(words_model, asked)
    other = save_model(tmp_path / "tuned", seed=1)
    with pytest.raises(FileError, match="another model"):
        recorded(other, asked)
    moved = shutil.copytree(words_model, tmp_path / "moved")  # the same under another name
    assert recorded(moved, asked) == []


@pytest.mark.parametrize("how", ["cut", "other", "empty"])
def test_a_damaged_file_is_no_finished_one(words_model, asked, how):
    recorded(words_model, asked)
    file = asked.folder / "shard-00001.regard"
    whole = file.read_bytes()
    file.write_bytes({"cut": whole[:-5000], "other": b"mine", "empty": b""}[how])
    with pytest.raises(FileError, match=r"shard-00001\.regard: .*damaged"):
        recorded(words_model, asked)
    assert recorded(words_model, replace(asked, overwrite=True)) == ["shard-00001.regard"]


def test_bad_documents_end_it_before_any_work(words_model, asked):
    with asked.documents.open("a") as file:
        file.write('{"text": "the sea"\n')
        file.write(json.dumps({"text": "the sea " * 50}) + "\n")
    with pytest.raises(InputError, match=r"d\.jsonl:8: not JSON .*--skip-bad"):
        recorded(words_model, asked)
    assert not asked.folder.exists()
    skipping = replace(asked, skip_bad=True)
    recorded(words_model, skipping)
    told = json.loads((asked.folder / MANIFEST).read_text())
    assert [one["name"] for one in told["skipped"]] == ["d.jsonl:8", "d.jsonl:9"]
    assert "64 positions" in told["skipped"][1]["why"]
    assert len(arrays_of(asked.folder)) == 7
    assert recorded(words_model, skipping) == []


def test_a_document_that_is_too_long_is_named(words_model, asked):
    write_jsonl(asked.documents, ["the sea", "the sea " * 50])
    with pytest.raises(InputError, match=r"d\.jsonl:2: the prompt has 100 tokens.*64 positions"):
        recorded(words_model, asked)
    write_jsonl(asked.documents, ["the sea " * 50])
    with pytest.raises(InputError, match="no document can be recorded"):
        recorded(words_model, replace(asked, skip_bad=True))


def test_a_disk_that_is_too_small_is_told_before_any_work(words_model, asked, monkeypatch):
    few = SimpleNamespace(free=1000)
    monkeypatch.setattr(running.shutil, "disk_usage", lambda _: few)
    with pytest.raises(FileError, match=r"1\.0 kB are free there"):
        recorded(words_model, asked)
    assert not asked.folder.exists()


def test_what_is_to_do_is_known_before(words_model, asked):
    workers: Any = Inline(ModelSpec(str(words_model), asked.options))
    run = prepare(asked, *gather(asked), workers)
    assert not asked.folder.exists()
    assert (run.documents, run.files, run.done, len(run.todo)) == (7, 3, 0, 3)
    assert run.tokens == sum(len(text.split()) for text in documents(7))
    with claimed(asked.folder):
        list(carry_out(run, asked, workers))
    written = sum(one.stat().st_size for one in asked.folder.glob("*.regard"))
    assert written / 3 < run.size < written * 3


def test_two_runs_do_not_share_a_folder(asked):
    with (
        claimed(asked.folder),
        pytest.raises(FileError, match="being written by another process"),
        claimed(asked.folder),
    ):
        pass
    assert not asked.folder.exists()  # nothing came of it


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="cannot be made"), claimed(tmp_path / "file" / "out"):
        pass


# ── the same files by an actor that is handed batches ──────────────────────────────────────────


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


def test_what_a_killed_actor_left_goes_when_its_batch_is_tried_again(words_model, tmp_path):
    batch = {"text": np.array(["the sea"])}
    BatchRecorder(str(words_model), tmp_path)(batch)
    (file,) = tmp_path.iterdir()
    file.unlink()
    left = tmp_path / f".{file.stem}-dead.part"
    live, other = tmp_path / f".{file.stem}-live.part", tmp_path / ".shard-other-dead.part"
    for part in (left, live, other):
        part.write_text("half")
    with live.open("rb") as held:
        lock(held.fileno(), live.name)
        BatchRecorder(str(words_model), tmp_path)(batch)
    assert sorted(tmp_path.iterdir()) == sorted([file, live, other])


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
