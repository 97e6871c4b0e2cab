"""A folder of files: begun, resumed, refused. The same work in this process; for processes that
are killed see tests/cli/test_documents.py."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import regard
from recorder.actors import map_batches
from recorder.models import tiny
from recorder.texts import arrays_of, documents, recorded, save_model, write_jsonl
from regard.errors import FileError, InputError
from regard.recorder import BatchRecorder
from regard.recorder import documents as running
from regard.recorder.documents import CorpusRequest, claimed
from regard.recorder.shards import RecordOptions, fingerprint, read_corpus
from regard.recording import STATISTICS
from regard.recording.format.frames import lock
from regard.recording.merged import merge_prompts
from regard.recording.shards import MANIFEST

FILES = [f"shard-0000{n}.regard" for n in range(4)]


@pytest.fixture
def asked(tmp_path: Path) -> CorpusRequest:
    """Seven documents, three a file."""
    path = write_jsonl(tmp_path / "d.jsonl", documents(7))
    return CorpusRequest(path, tmp_path / "out", RecordOptions(), per_file=3)


@pytest.fixture(scope="module")
def made(words_model, tmp_path_factory) -> Path:
    """What that leaves."""
    folder = tmp_path_factory.mktemp("made")
    path = write_jsonl(folder / "d.jsonl", documents(7))
    recorded(words_model, CorpusRequest(path, folder / "out", RecordOptions(), per_file=3))
    return folder / "out"


@pytest.fixture
def done(asked: CorpusRequest, made: Path) -> CorpusRequest:
    """Asked, and recorded."""
    shutil.copytree(made, asked.folder)
    return asked


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


def test_every_document_once_in_order_and_again_there_is_nothing_to_do(words_model, asked):
    assert recorded(words_model, asked) == FILES[:3]
    before = contents(asked.folder)
    assert sorted(before) == [MANIFEST, *FILES[:3]]
    with regard.open(asked.folder) as rec:
        assert [one.title for one in rec.prompts] == [f"d.jsonl:{n + 1}" for n in range(7)]
        assert [" ".join(one.tokens) for one in rec.prompts] == documents(7)
        merged, again = rec.merged(), merge_prompts(rec.prompts)
        assert merged.documents == 7 and rec.prompt(6)["L2H3"].exact
        for name in STATISTICS:  # what is kept of the documents is what is in them
            np.testing.assert_allclose(merged.grid(name), again.grid(name), rtol=1e-12)
    manifest = json.loads(before[MANIFEST])
    assert manifest["contents"] == "documents/1"
    assert manifest["documents"] == str(asked.documents)
    assert manifest["model"]["dtype"] == "float32" and len(manifest["model"]["fingerprint"]) == 64
    assert manifest["options"] == vars(RecordOptions())
    assert [one["documents"] for one in manifest["shards"]] == [3, 3, 1]
    assert len({one["digest"] for one in manifest["shards"]}) == 3
    assert recorded(words_model, asked) == []
    assert {name: before[name] for name in FILES[:3]} == {
        name: data for name, data in contents(asked.folder).items() if name != MANIFEST
    }


@pytest.mark.parametrize("gone", [[1], [0, 2]])
def test_whatever_is_missing_is_made_and_nothing_else(words_model, done, made, gone):
    for n in gone:
        (done.folder / FILES[n]).unlink()
    (done.folder / ".shard-00001-abc.part").write_text("half")
    assert recorded(words_model, done) == [FILES[n] for n in gone]
    assert arrays_of(done.folder) == arrays_of(made)
    assert not list(done.folder.glob(".*"))


def fails_at(patch: pytest.MonkeyPatch, name: str) -> None:
    real = running.ShardRecorder.write

    def write(self: Any, path: Any, *rest: Any) -> Any:
        if path.name == name:
            raise FileError("no space left")
        return real(self, path, *rest)

    patch.setattr(running.ShardRecorder, "write", write)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_run_that_fails_keeps_what_was_whole_and_goes_on(words_model, asked, made, is_new):
    """Files of another run stay until all that replace them are whole."""
    over = asked
    if not is_new:
        shutil.copytree(made, asked.folder)
        over = replace(asked, options=RecordOptions(layers="0"), overwrite=True)
    before = {} if is_new else contents(asked.folder)
    with pytest.MonkeyPatch.context() as patch:
        fails_at(patch, FILES[1])
        with pytest.raises(FileError, match="no space left"):
            recorded(words_model, over)
    if is_new:
        assert sorted(contents(asked.folder)) == [MANIFEST, FILES[0]]
    else:
        assert contents(asked.folder) == before
        assert list(contents(asked.folder / "partial")) == [FILES[0]]
    assert recorded(words_model, over) == FILES[1:3]  # the same command again
    assert sorted(one.name for one in asked.folder.iterdir()) == [MANIFEST, *FILES[:3]]
    assert recorded(words_model, replace(over, overwrite=False)) == []


@pytest.mark.parametrize(
    ("count", "said", "anew", "left"),
    [
        (10, r"shard-00002\.regard: other documents.*--overwrite", FILES[2:4], FILES),
        (3, "this run has no such file", [], FILES[:1]),
    ],
)
def test_more_or_fewer_documents_later(words_model, done, count, said, anew, left):
    write_jsonl(done.documents, documents(10)[:count] if count > 7 else documents(7)[:count])
    with pytest.raises(FileError, match=said):
        recorded(words_model, done)
    assert recorded(words_model, replace(done, overwrite=True)) == anew
    assert sorted(contents(done.folder)) == [MANIFEST, *left]
    with regard.open(done.folder) as rec:
        assert [one.number for one in rec.prompts] == list(range(count))
        assert [" ".join(one.tokens) for one in rec.prompts] == documents(10)[:count]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"generate": 2}, "generate 0 there, 2 now"),
        ({"layers": "0"}, "layers None there, 0 now"),
        ({"budget": 10**6}, "budget 2000000000 there, 1000000 now"),
    ],
)
def test_other_options_are_named_and_nothing_is_touched(words_model, done, options, said):
    before = contents(done.folder)
    with pytest.raises(FileError, match=said):
        recorded(words_model, replace(done, options=RecordOptions(**options)))
    assert contents(done.folder) == before


def test_another_model_is_noticed_by_its_weights(words_model, done, tmp_path):
    with pytest.raises(FileError, match="another model"):
        recorded(save_model(tmp_path / "tuned", seed=1), done)
    moved = shutil.copytree(words_model, tmp_path / "moved")  # the same under another name
    assert recorded(moved, done) == []
    a, b = tiny("llama"), tiny("llama")
    assert fingerprint(a) == fingerprint(b) != fingerprint(tiny("llama").bfloat16())
    b.model.layers[1].self_attn.q_proj.weight.data += 1e-3
    assert fingerprint(a) != fingerprint(b)


@pytest.mark.parametrize("how", ["cut", "other", "empty"])
def test_a_damaged_file_is_no_finished_one(words_model, done, how):
    file = done.folder / FILES[1]
    whole = file.read_bytes()
    file.write_bytes({"cut": whole[:-5000], "other": b"mine", "empty": b""}[how])
    with pytest.raises(FileError, match=r"shard-00001\.regard: .*damaged"):
        recorded(words_model, done)
    assert recorded(words_model, replace(done, overwrite=True)) == [FILES[1]]


def test_bad_documents_end_it_before_any_work(words_model, asked):
    with asked.documents.open("a") as file:
        file.write('{"text": "the sea"\n')
        file.write(json.dumps({"text": "the sea " * 50}) + "\n")
    with pytest.raises(InputError, match=r"d\.jsonl:8: not JSON .*--skip-bad"):
        recorded(words_model, asked)
    assert not asked.folder.exists()
    skipping = replace(asked, skip_bad=True)
    recorded(words_model, skipping)
    manifest = json.loads((asked.folder / MANIFEST).read_text())
    assert [one["name"] for one in manifest["skipped"]] == ["d.jsonl:8", "d.jsonl:9"]
    assert "64 positions" in manifest["skipped"][1]["why"]
    assert len(arrays_of(asked.folder)) == 7
    assert recorded(words_model, skipping) == []


@pytest.mark.parametrize(
    ("texts", "options", "said"),
    [
        (["the sea", "the sea " * 50], {}, r"d\.jsonl:2: the prompt has 100 tokens.*64 positions"),
        (["the sea"], {"generate": 63}, r"d\.jsonl:1: .*64 positions: shorten it by 1"),
        (["the sea rises"], {"queries": "10:20"}, "3 tokens, so no row is among --queries 10:20"),
    ],
)
def test_a_document_that_cannot_be_recorded_is_named(words_model, asked, texts, options, said):
    write_jsonl(asked.documents, texts)
    given = replace(asked, options=RecordOptions(**options))
    with pytest.raises(InputError, match=said):
        recorded(words_model, given)
    if len(texts) == 1:
        with pytest.raises(InputError, match="no document can be recorded"):
            recorded(words_model, replace(given, skip_bad=True))


def test_a_disk_that_is_too_small_is_refused_before_any_work(words_model, asked, monkeypatch):
    few = SimpleNamespace(free=1000)
    monkeypatch.setattr(running.shutil, "disk_usage", lambda _: few)
    with pytest.raises(FileError, match=r"1\.0 kB are free there"):
        recorded(words_model, asked)
    assert not asked.folder.exists()


def test_folders_that_cannot_be_written(asked, tmp_path):
    with (
        claimed(asked.folder),
        pytest.raises(FileError, match="being written by another process"),
        claimed(asked.folder),
    ):
        pass
    assert not asked.folder.exists()  # nothing came of it
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="cannot be made"), claimed(tmp_path / "file" / "out"):
        pass


def test_some_of_it_and_what_is_generated(words_model, asked):
    options = RecordOptions(generate=3, layers="0,2", heads="1", budget=10**6)
    recorded(words_model, replace(asked, options=options, per_file=7))
    with regard.open(asked.folder) as rec:
        assert rec.prompt(1).labels() == rec.merged().labels() == ["L0H1", "L2H1"]
        assert [one.generated for one in rec.prompts] == [3] * 7
    for wrong, said in (({"layers": "x"}, "0,5-10"), ({"queries": "9:3"}, "range of rows")):
        with pytest.raises(InputError, match=said):
            RecordOptions(**wrong)  # before a model is loaded


# ── documents by where they stand; and those that are none, each by name and reason ────────────


def test_a_folder_of_files_in_order(tmp_path):
    for name in ("b", ".git", "d"):
        (tmp_path / name).mkdir()
    (tmp_path / "b" / "z.txt").write_text("zett\n")
    (tmp_path / "a.txt").write_text("one\n\n")
    (tmp_path / "c.md").write_bytes("ümlaut\r\nline".encode())
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / ".git" / "x.txt").write_text("no")
    (tmp_path / "d" / "a.bin").write_bytes(b"\xff\xfe")
    (tmp_path / "d" / "b.txt").write_text("\n \n")
    (tmp_path / "d" / "c.jsonl").write_text("{}")
    texts, bad = read_corpus(tmp_path, "text")
    # of the last line breaks one is the editor's; nothing else is touched
    assert [(one.name, one.text()) for one in texts] == [
        ("a.txt", "one\n"), ("b/z.txt", "zett"), ("c.md", "ümlaut\r\nline"),
    ]  # fmt: skip
    assert [str(one).split(";")[0] for one in bad] == [
        "d/a.bin: not UTF-8 text", "d/b.txt: empty",
        "d/c.jsonl: a JSONL inside a folder of text files",
    ]  # fmt: skip


def test_a_jsonl_by_lines(tmp_path):
    path = tmp_path / "d.jsonl"
    lines = [json.dumps({"body": "eins"}), "", '{"body": "zw\\u00f6lf ✓", "text": 2}\r', "  "]
    path.write_text("\n".join([*lines, '{"body": "ohne Ende"}']), encoding="utf-8")
    texts, bad = read_corpus(path, "body")
    assert not bad
    assert [(one.name, one.text()) for one in texts] == [
        ("d.jsonl:1", "eins"), ("d.jsonl:3", "zwölf ✓"), ("d.jsonl:5", "ohne Ende"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"text": "a"', "not JSON"), (b"plain words", "not JSON"),
        (b'{"text": "\xff"}', "not UTF-8"), (b'{"text": "\\ud800"}', "lone surrogate"),
        (b'{"body": "a"}', "no field 'text'; its fields are 'body'"),
        (b'{"text": 5}', "is a number, not a text"), (b'{"text": null}', "is a null, not a text"),
        (b'["a"]', "a JSON list"), (b'"a"', "a JSON text"), (b'{"text": "  \\n "}', "empty"),
        (b"[" * 100_000, ""),
    ],
)  # fmt: skip
def test_lines_that_are_no_documents_are_named_by_number(tmp_path, line, said):
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'{"text": "fine"}\n' + line + b'\n{"text": "fine too"}\n')
    texts, bad = read_corpus(path, "text")
    assert [one.name for one in texts] == ["d.jsonl:1", "d.jsonl:3"]
    assert [one.name for one in bad] == ["d.jsonl:2"]
    assert said in str(bad[0])
    assert [one.text() for one in texts] == ["fine", "fine too"]


def test_nothing_to_read(tmp_path):
    (tmp_path / "d.jsonl").write_text("\n\n")
    (tmp_path / "empty").mkdir()
    for name, kind, said in (("none", FileError, "no such folder or file"),
                             ("empty", InputError, "holds no document"),
                             ("d.jsonl", InputError, "holds no document")):  # fmt: skip
        with pytest.raises(kind, match=said):
            read_corpus(tmp_path / name, "text")


def test_a_document_that_changed_is_noticed(tmp_path):
    folder, lines = tmp_path / "texts", tmp_path / "d.jsonl"
    folder.mkdir()
    file = folder / "a.txt"
    file.write_text("one")
    lines.write_text('{"text": "one"}\n{"text": "two"}\n')
    found = [one for path in (folder, lines) for one in read_corpus(path, "text")[0]]
    file.write_text("two")
    lines.write_text('{"text": "longer"}\n{"text": "two"}\n')
    for document, said in zip(
        found, (r"a\.txt: was changed", r"d\.jsonl:1", r"d\.jsonl:2"), strict=True
    ):
        with pytest.raises(FileError, match=said):
            document.text()
    file.unlink()
    with pytest.raises(FileError, match=r"a\.txt: cannot be read any more"):
        found[0].text()


# ── the same files by an actor that is handed batches ──────────────────────────────────────────

ROWS = [{"name": f"d.jsonl:{n + 1}", "text": text} for n, text in enumerate(documents(7))]


def mapped(model, folder, rows=ROWS, **options):
    return map_batches(
        rows, BatchRecorder, batch_size=3, concurrency=2,
        fn_constructor_args=(str(model), str(folder)),
        fn_constructor_kwargs={"names": "name"} | options,
    )  # fmt: skip


def test_a_row_for_each_head_of_each_file(words_model, made, tmp_path, monkeypatch):
    heads = mapped(words_model, tmp_path)
    files = sorted({row["file"] for row in heads})
    assert files == sorted(one.name for one in tmp_path.iterdir()) and len(files) == 3
    assert len(heads) == 3 * 12
    for file in files:
        with regard.open(tmp_path / file) as rec:
            mine = [row for row in heads if row["file"] == file]
            merged = rec.merged()
            assert [row["head"] for row in mine] == merged.labels()
            assert {row["documents"] for row in mine} == {len(rec.prompts)}
            assert {row["tokens"] for row in mine} == {merged.tokens}
            for name in STATISTICS:
                np.testing.assert_array_equal([r[name] for r in mine], merged.numbers()[name])
    own = [row for row in heads if row["head"] == "L1H2"]
    mean = np.average([row["entropy"] for row in own], weights=[row["rows"] for row in own])
    with regard.open(tmp_path) as rec:
        merged = rec.merged()
        assert merged.documents == 7
        np.testing.assert_allclose(merged.grid("entropy")[1, 2], mean, rtol=1e-12)
        assert merged.grid("max_score")[1, 2] == max(row["max_score"] for row in own)
    assert arrays_of(tmp_path) == arrays_of(made)  # they are those that the command records
    before = contents(tmp_path)
    monkeypatch.setattr(running.ShardRecorder, "write", None)  # what is there is not written
    np.testing.assert_equal(mapped(words_model, tmp_path), heads)
    assert contents(tmp_path) == before


def test_other_options_make_another_file(words_model, tmp_path):
    mapped(words_model, tmp_path, rows=ROWS[:3])
    mapped(words_model, tmp_path, rows=ROWS[:3], layers="0")
    assert len(list(tmp_path.iterdir())) == 2


def test_what_a_killed_actor_left_goes_when_its_batch_is_tried_again(words_model, tmp_path):
    batch = {"text": np.array(["the sea"])}
    actor = BatchRecorder(str(words_model), tmp_path)
    actor(batch)
    (file,) = tmp_path.iterdir()
    file.unlink()
    left = tmp_path / f".{file.stem}-dead.part"
    live, other = tmp_path / f".{file.stem}-live.part", tmp_path / ".shard-other-dead.part"
    for part in (left, live, other):
        part.write_text("half")
    with live.open("rb") as held:
        lock(held.fileno(), live.name)
        actor(batch)
    assert sorted(tmp_path.iterdir()) == sorted([file, live, other])


def test_batches_without_names_without_rows_and_wrong_ones(words_model, tmp_path):
    actor = BatchRecorder(str(words_model), tmp_path / "new" / "folder", texts="body")
    full = actor({"body": np.array(["the sea", "the sea"]), "more": np.array([1, 2])})
    none = actor({"body": np.array([], str)})
    assert list(none) == list(full) and not any(len(column) for column in none.values())
    assert [none[name].dtype.kind for name in none] == [full[name].dtype.kind for name in full]
    with regard.open(tmp_path / "new" / "folder") as rec:
        assert len(rec.prompts) == 2 and len({one.title for one in rec.prompts}) == 1
        assert rec.merged().documents == 2  # the same words twice are two documents
    actor = BatchRecorder(str(words_model), tmp_path / "none", names="name")
    for batch, said in (
        ({"name": ["a"], "body": ["x"]}, "no column 'text'; its columns are 'name', 'body'"),
        ({"name": ["a", "b"], "text": ["the sea", "the sea " * 50]}, r"b: .*64 positions"),
        ({"name": ["a", "b"], "text": ["the sea", " "]}, "b: the text is empty"),
        ({"name": ["a", "b"], "text": ["the sea", None]}, "b: a NoneType in 'text'"),
    ):
        with pytest.raises(InputError, match=said):
            actor(batch)
    assert not list((tmp_path / "none").iterdir())


def test_the_class_travels():
    assert pickle.loads(pickle.dumps(BatchRecorder)) is BatchRecorder
