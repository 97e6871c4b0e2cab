"""Many documents in many files are one recording, opened file by file."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

import regard
from regard.display import as_html
from regard.errors import FileError, InputError
from regard.mask import Causal
from regard.recording import STATISTICS, Recording, Shards, Writer, open_recording
from support.recordings import Chunk, write_prompt, write_recording

LENGTHS = ((5, 9), (3,), (12, 4, 7), (6,), (8,), (10,), (11, 2))
EVERY = [length for file in LENGTHS for length in file]


def write_documents(path: Path, lengths: tuple[int, ...], first: int) -> None:
    """Two layers of each document, counted from `first`."""
    with Writer(path) as writer:
        for prompt, length in enumerate(lengths):
            chunks, options = [Chunk((0, length), (0, length), Causal())], {"seed": first + prompt}
            if prompt == 0:
                write_recording(writer, chunks=chunks, **options)
            else:
                write_prompt(writer, chunks, prompt=prompt, **options)
            write_prompt(writer, chunks, prompt=prompt, layer=1, tokens=False, note=False)
        names = [f"{first + n}.txt" for n in range(len(lengths))]
        writer.note({"shard": json.dumps({"documents": len(lengths), "names": names})})


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Seven files of one to three documents, the same in one file, and one that is neither."""
    folder = tmp_path_factory.mktemp("shards")
    for n, lengths in enumerate(LENGTHS):
        first = sum(map(len, LENGTHS[:n]))
        write_documents(folder / f"shard-{n:05}.regard", lengths, first)
    write_documents(folder / "whole.regard", tuple(EVERY), 0)
    (folder / "notes.txt").write_text("not one of them")
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """A copy to spoil."""
    return Path(copytree(written, tmp_path / "shards"))


def files_open(folder: Path) -> set[str]:
    """Which of the folder's files this process holds open."""
    names = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            path = descriptor.readlink()
            names |= {path.name} if path.parent == folder else set()
    return names


def test_documents_are_numbered_through(folder):
    with regard.open(folder) as rec:
        assert isinstance(rec.store, Shards) and len(rec.files) == 7
        assert [prompt.number for prompt in rec.prompts] == list(range(len(EVERY)))
        assert [len(prompt.ids) for prompt in rec.prompts] == EVERY
        assert rec.prompt(-1).number == len(EVERY) - 1
        assert [prompt.number for prompt in rec.prompts[3:5]] == [3, 4]
        assert not rec.is_live and not rec.damage
        assert repr(rec).startswith(f"Recording(synthetic, {len(EVERY)} prompts")
        with pytest.raises(InputError, match="prompt 99 does not exist"):
            rec.prompt(99)
        with pytest.raises(IndexError):
            rec.prompts[99]
        for shown in (rec, rec.prompt(4), rec.prompt(4)["L1H2"]):
            assert "<iframe" in (as_html(shown) or "")
        again = Recording(rec.store)  # as the page takes one, to work without a lock
        assert again.prompts[5].ids.tolist() == rec.prompts[5].ids.tolist()


def test_every_answer_is_that_of_one_file(folder):
    with regard.open(folder) as many, regard.open(folder / "whole.regard") as one_file:
        assert many.labels() == one_file.labels() and many.stacks == one_file.stacks
        for n, right in enumerate(one_file.prompts):
            prompt = many.prompt(n)
            assert prompt.ids.tolist() == right.ids.tolist()
            for label in prompt.labels():
                np.testing.assert_array_equal(np.asarray(prompt[label]), np.asarray(right[label]))
            for name in STATISTICS:
                np.testing.assert_array_equal(prompt.grid(name), right.grid(name))
                np.testing.assert_array_equal(many.grid(name, prompt=n), right.grid(name))
        merged, right = many.merged(), one_file.merged()
        assert (merged.documents, merged.tokens, merged.keys) == (len(EVERY), sum(EVERY), 12)
        for name in STATISTICS:
            np.testing.assert_allclose(merged.grid(name), right.grid(name), rtol=1e-13)
            np.testing.assert_array_equal(merged.rows(name), right.rows(name))
        for what in ("statistics", "rows", "merged"):
            columns = many.table(what).columns
            for name, column in one_file.table(what).columns.items():
                if column.dtype == object:
                    assert columns[name].tolist() == column.tolist()
                else:
                    np.testing.assert_allclose(columns[name], column, rtol=1e-6, atol=1e-6)
        assert set(many.table("rows", prompt=-1).columns["prompt"]) == {len(EVERY) - 1}


def test_few_files_are_open_at_a_time(folder):
    with regard.open(folder) as rec:
        first = rec.prompt(0)
        assert sum(len(prompt.ids) for prompt in rec.prompts) == sum(EVERY)
        rec.merged()
        assert len(files_open(folder)) <= 4 + 1  # the first document keeps its own
        # what was handed out answers all the same
        np.testing.assert_allclose(np.asarray(first["L0H0"]).sum(-1), 1, atol=1e-5)


def test_with_a_manifest_only_what_is_asked_for_is_opened(folder):
    rows = [{"file": f"shard-{n:05}.regard", "documents": len(f)} for n, f in enumerate(LENGTHS)]
    (folder / "manifest.json").write_text(json.dumps({"shards": rows}))
    with regard.open(folder) as rec:
        assert len(rec.prompts) == len(EVERY) and len(rec.prompt(4).ids) == EVERY[4]
        assert files_open(folder) == {rows[0]["file"], rows[2]["file"]}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"shards": 5}', '{"shards": [{"file": 7}]}', "[" * 100_000,
     '{"shards": [{"file": "shard-00000.regard", "documents": -1}]}',
     '{"shards": [{"file": "shard-00000.regard", "documents": 5}]}'],
)  # fmt: skip
def test_a_manifest_that_is_wrong(folder, text):
    (folder / "manifest.json").write_text(text)
    says = "holds 2 documents, and manifest.json says 5" if ": 5}]" in text else "cannot be read"
    with pytest.raises(FileError, match=says), regard.open(folder) as rec:
        rec.prompt(0)


def test_files_that_come_later_are_seen(folder):
    late = folder / "shard-00006.regard"
    late.rename(folder / "away")
    with regard.open(folder) as rec:
        assert len(rec.prompts) == len(EVERY) - 2 and not rec.refresh()
        (folder / "away").rename(late)
        assert rec.refresh()
        assert len(rec.prompts) == len(EVERY) and len(rec.prompt(-1).ids) == 2


def test_what_is_wrong_with_a_file_names_it(folder):
    file = folder / "shard-00001.regard"
    os.truncate(file, file.stat().st_size - 1)
    with regard.open(folder) as rec:
        assert rec.damage == ()
        rec.prompt(2)
        assert [damage.file for damage in rec.damage] == [str(file)]
    file.unlink()
    file.write_bytes(b"x")
    says = r"shard-00001\.regard: not a regard recording"
    with pytest.raises(FileError, match=says), regard.open(folder) as rec:
        rec.merged()
    file.write_bytes((folder / "shard-00000.regard").read_bytes())
    says = r"'0.txt' is in shard-00000\.regard and in shard-00001"
    with pytest.raises(FileError, match=says), regard.open(folder) as rec:
        rec.merged()


def test_it_is_a_store_of_every_tensor(folder):
    with Shards(folder) as store:
        name = "shard-00002/P1/L0/lse/0"
        assert name in store.entries and store.entries[name].dtype == "F32"
        assert store.array(name).shape == store.words(name).shape == (4, 4)
        with pytest.raises(InputError, match="holds no 'lse'; it has 7 files"):
            store.array("lse")


def test_other_folders_are_no_shards(folder, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(FileError, match="without rank-0000"):
        regard.open(empty)
    with pytest.raises(FileError, match="a folder without shard-"):
        Shards(empty)
    with pytest.raises(FileError, match="without rank-0000"):
        open_recording(folder)  # tensors of one file, or of one per rank
