"""Some documents become one file, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from recorder.models import Stack, tiny, tokens
from recorder.texts import documents
from regard.errors import FileError, InputError
from regard.models import load
from regard.recorder import shards
from regard.recorder.shards import (
    RecordOptions,
    ShardRecorder,
    Text,
    fingerprint,
    read_corpus,
    shards_of,
)
from regard.recording import STATISTICS
from regard.recording.merged import merge_prompts, read_merged

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def loaded(words_model):
    return load(words_model)


def texts(count: int) -> list[Text]:
    return [Text(f"d{n}", text) for n, text in enumerate(documents(count))]


def test_a_file_holds_its_documents_as_prompts_with_their_names(loaded, tmp_path):
    given = texts(3)
    path = tmp_path / "shard-00000.regard"
    steps: list[float] = []
    merged = ShardRecorder(loaded, RecordOptions()).write(
        path, given, {"digest": "x"}, steps.append
    )
    assert list(tmp_path.iterdir()) == [path]  # nothing unfinished is left
    with regard.open(path) as rec:
        assert [one.title for one in rec.prompts] == ["d0", "d1", "d2"]
        assert all(one.finished for one in rec.prompts)
        assert [" ".join(one.tokens) for one in rec.prompts] == [one.text for one in given]
        assert sum(steps) == pytest.approx(sum(len(one.ids) for one in rec.prompts))
        assert rec.prompt(2)["L2H3"].exact
        # what is kept of it is what one finds in the documents, to the bit
        found = merge_prompts(rec.prompts)
        kept = read_merged(rec.store)
        assert kept is not None and kept.documents == found.documents == merged.documents == 3
        for name in STATISTICS:
            np.testing.assert_array_equal(kept.grid(name), found.grid(name), err_msg=name)


def test_the_same_documents_alone_or_in_company(loaded, tmp_path):
    given = texts(4)
    recorder = ShardRecorder(loaded, RecordOptions())
    recorder.write(tmp_path / "shard-0.regard", given, {})
    recorder.write(tmp_path / "shard-1.regard", given[2:3], {})
    with (
        regard.open(tmp_path / "shard-0.regard") as many,
        regard.open(tmp_path / "shard-1.regard") as one,
    ):
        for label in one.labels():
            a, b = many.prompt(2)[label], one.prompt(0)[label]
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_a_failure_leaves_nothing_behind(loaded, tmp_path, monkeypatch):
    calls = []

    def drive(*given: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError("the machine is on fire")
        real(*given, **more)

    real = shards.drive
    monkeypatch.setattr(shards, "drive", drive)
    with pytest.raises(OSError, match="on fire"):
        ShardRecorder(loaded, RecordOptions()).write(tmp_path / "shard-0.regard", texts(3), {})
    assert not list(tmp_path.iterdir())


def test_an_earlier_file_stays_until_the_new_one_is_whole(loaded, tmp_path, monkeypatch):
    path = tmp_path / "shard-0.regard"
    path.write_text("before")

    def extend(_: object) -> None:
        assert path.read_text() == "before"
        raise FileError("no room")

    recorder = ShardRecorder(loaded, RecordOptions())
    with monkeypatch.context() as patched:
        patched.setattr(shards, "extend", extend)
        with pytest.raises(FileError, match="no room"):
            recorder.write(path, texts(1), {})
    assert path.read_text() == "before"
    recorder.write(path, texts(1), {})
    with regard.open(path) as rec:
        assert len(rec.prompts) == 1


def test_documents_that_cannot_be_recorded_say_why(loaded):
    recorder = ShardRecorder(loaded, RecordOptions(queries="10:20", generate=4))
    assert recorder.tokens("the sea " * 10) == 20
    with pytest.raises(InputError, match="64 positions: shorten it by 10"):
        recorder.tokens("the sea " * 35)
    with pytest.raises(InputError, match="3 tokens, so no row is among --queries 10:20"):
        recorder.tokens("the sea rises")


def test_some_of_it_and_what_is_written_on(loaded, tmp_path):
    options = RecordOptions(generate=3, layers="0,2", heads="1", budget=10**6)
    ShardRecorder(loaded, options).write(tmp_path / "shard-0.regard", texts(2), {})
    with regard.open(tmp_path / "shard-0.regard") as rec:
        assert rec.prompt(1).labels() == ["L0H1", "L2H1"]
        assert [one.generated for one in rec.prompts] == [3, 3]
        assert rec.merged().labels() == ["L0H1", "L2H1"]


def test_wrong_words_end_before_a_model_is_loaded():
    with pytest.raises(InputError, match="0,5-10"):
        RecordOptions(layers="x")
    with pytest.raises(InputError, match="range of rows"):
        RecordOptions(queries="9:3")


def test_other_weights_have_another_fingerprint():
    a, b = tiny("llama"), tiny("llama")
    assert fingerprint(a) == fingerprint(b)
    b.model.layers[1].self_attn.q_proj.weight.data += 1e-3
    assert fingerprint(a) != fingerprint(b)
    assert fingerprint(a) != fingerprint(tiny("llama").bfloat16())


# ── documents by where they stand; and those that are none, each by name and reason ────────────


def test_a_folder_of_files_in_order(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "z.txt").write_text("zett\n")
    (tmp_path / "a.txt").write_text("one\n\n")
    (tmp_path / "c.md").write_bytes("ümlaut\r\nline".encode())
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.txt").write_text("no")
    found, bad = read_corpus(tmp_path, "text")
    assert [one.name for one in found] == ["a.txt", "b/z.txt", "c.md"] and not bad
    # of the last line breaks one is the editor's; nothing else is touched
    assert [one.text() for one in found] == ["one\n", "zett", "ümlaut\r\nline"]


def test_a_jsonl_by_lines(tmp_path):
    path = tmp_path / "d.jsonl"
    lines = [json.dumps({"text": "eins"}), "", '{"text": "zw\\u00f6lf ✓", "id": 2}\r', "  "]
    path.write_text("\n".join([*lines, '{"text": "ohne Ende"}']), encoding="utf-8")
    found, bad = read_corpus(path, "text")
    assert not bad
    assert [one.name for one in found] == ["d.jsonl:1", "d.jsonl:3", "d.jsonl:5"]
    assert [one.text() for one in found] == ["eins", "zwölf ✓", "ohne Ende"]


def test_another_field(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"body": "x", "text": 5}\n')
    assert [one.text() for one in read_corpus(path, "body")[0]] == ["x"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"text": "a"', "not JSON"),
        (b"plain words", "not JSON"),
        (b'{"text": "\xff"}', "not UTF-8"),
        (b'{"text": "\\ud800"}', "lone surrogate"),
        (b'{"body": "a"}', "no field 'text'; its fields are 'body'"),
        (b'{"text": 5}', "is a number, not a text"),
        (b'{"text": null}', "is a null, not a text"),
        (b'["a"]', "a JSON list"),
        (b'"a"', "a JSON text"),
        (b'{"text": "  \\n "}', "empty"),
        (b"[" * 100_000, ""),
    ],
)
def test_lines_that_are_no_documents_are_told_by_number(tmp_path, line, said):
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'{"text": "fine"}\n' + line + b'\n{"text": "fine too"}\n')
    found, bad = read_corpus(path, "text")
    assert [one.name for one in found] == ["d.jsonl:1", "d.jsonl:3"]
    assert [one.name for one in bad] == ["d.jsonl:2"]
    assert said in str(bad[0])
    assert [one.text() for one in found] == ["fine", "fine too"]


def test_files_that_are_no_documents(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\xff\xfe")
    (tmp_path / "b.txt").write_text("\n \n")
    (tmp_path / "c.jsonl").write_text("{}")
    found, bad = read_corpus(tmp_path, "text")
    assert not found
    assert [str(one).split(";")[0] for one in bad] == [
        "a.bin: not UTF-8 text",
        "b.txt: empty",
        "c.jsonl: a JSONL inside a folder of text files",
    ]


def test_nothing_to_read(tmp_path):
    with pytest.raises(FileError, match="no such folder or file"):
        read_corpus(tmp_path / "none", "text")
    with pytest.raises(InputError, match="holds no document"):
        read_corpus(tmp_path, "text")
    (tmp_path / "d.jsonl").write_text("\n\n")
    with pytest.raises(InputError, match="holds no document"):
        read_corpus(tmp_path / "d.jsonl", "text")


def test_a_document_that_changed_is_noticed(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    ((document,), _) = read_corpus(tmp_path, "text")
    (tmp_path / "a.txt").write_text("two")
    with pytest.raises(FileError, match=r"a\.txt: was changed"):
        document.text()
    (tmp_path / "a.txt").unlink()
    with pytest.raises(FileError, match=r"a\.txt: cannot be read any more"):
        document.text()


def test_a_line_that_moved_is_noticed(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"text": "one"}\n{"text": "two"}\n')
    documents, _ = read_corpus(path, "text")
    path.write_text('{"text": "longer"}\n{"text": "two"}\n')
    for document in documents:
        with pytest.raises(FileError, match=r"d\.jsonl:[12]"):
            document.text()


def test_shards_are_by_order_and_their_digest_is_of_what_is_in_them(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text("".join(f'{{"text": "{n}"}}\n' for n in range(7)))
    documents, _ = read_corpus(path, "text")
    shards = shards_of(documents, 3)
    assert [one.file for one in shards] == [f"shard-0000{n}.regard" for n in range(3)]
    assert [len(one.documents) for one in shards] == [3, 3, 1]
    assert [d.text() for one in shards for d in one.documents] == list("0123456")
    assert len({one.digest for one in shards}) == 3
    again = shards_of(read_corpus(path, "text")[0], 3)
    assert [one.digest for one in again] == [one.digest for one in shards]
    # more documents at the end leave the full ones as they were
    with path.open("a") as file:
        file.write('{"text": "7"}\n')
    longer = shards_of(read_corpus(path, "text")[0], 3)
    assert [a.digest == b.digest for a, b in zip(shards, longer, strict=True)] == [1, 1, 0]


# ── what a recording is written beside replaces an older file only when it is whole ────────────


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.regard"
    path.write_text("mine")
    with pytest.raises(FileError, match="exists already"), regard.record(Stack(), path):
        pass
    assert path.read_text() == "mine"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, FileError])
def test_a_run_that_fails_leaves_the_older_file(tmp_path: Path, error: type[Exception]) -> None:
    """What it recorded is beside it, as a note on the error says."""
    model, path = tiny("llama"), tmp_path / "run.regard"
    path.write_bytes(b"mine")
    recorder = regard.record(model, path, overwrite=True)
    with pytest.raises(error) as caught, torch.no_grad(), recorder:
        model(tokens(9))
        raise error("stopped")
    partial = tmp_path / "run.regard.partial"
    assert path.read_bytes() == b"mine" and recorder.left == partial
    assert str(partial) in caught.value.__notes__[0]
    assert len(recorder.tokens) == 9  # of what was recorded, not of the older file
    with regard.open(partial) as found:
        assert len(found.tokens) == 9


@pytest.mark.parametrize("queries", ["500:600", None])
def test_a_run_that_records_nothing_leaves_the_older_file_alone(
    tmp_path: Path, queries: str | None
) -> None:
    model, path = tiny("llama"), tmp_path / "run.regard"
    path.write_bytes(b"mine")
    with (
        pytest.raises(InputError),
        torch.no_grad(),
        regard.record(model, path, queries=queries, overwrite=True),
    ):
        if queries:
            model(tokens(9))
    assert path.read_bytes() == b"mine" and list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_at_once_leaves_the_older_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.regard"
    path.write_bytes(b"mine")

    def full(*_: Any) -> None:
        raise FileError("no space left")

    monkeypatch.setattr("regard.recording.Writer.note", full)
    with (
        pytest.raises(FileError, match="no space left"),
        regard.record(tiny("llama"), path, overwrite=True),
    ):
        pass
    assert path.read_bytes() == b"mine" and list(tmp_path.iterdir()) == [path]


def test_a_whole_recording_replaces_the_older_file(tmp_path: Path) -> None:
    model, path = tiny("llama"), tmp_path / "run.regard"
    path.write_bytes(b"mine")
    try:
        raise ValueError  # an error that is handled around the block is none of its own
    except ValueError:
        with torch.no_grad(), regard.record(model, path, overwrite=True) as recorder:
            model(tokens(9))
    assert len(recorder.tokens) == 9 and list(tmp_path.iterdir()) == [path]
