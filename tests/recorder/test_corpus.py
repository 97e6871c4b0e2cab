"""Documents by where they stand; and those that are none, each by name and reason."""

from __future__ import annotations

import json

import pytest

from regard.errors import FileError, InputError
from regard.recorder.shards import read_corpus, shards_of


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
