"""Many documents in many files are one recording, opened file by file."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch

import regard
from recorder.models import tiny, tokens
from regard.display import as_html
from regard.errors import FileError, InputError
from regard.recording import STATISTICS, Recording, Shards, open_recording
from regard.recording.format.write import extend
from regard.recording.shards import MANIFEST, SHARD_NOTE, is_shards

LENGTHS = ((5, 9), (3,), (12, 4, 7), (6,), (8,), (10,), (11, 2))
EVERY = [length for file in LENGTHS for length in file]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Seven files of one to three documents, and the same documents in one file."""
    folder = tmp_path_factory.mktemp("shards")
    model = tiny("llama", num_key_value_heads=2)
    numbers = iter(range(100))
    for n, lengths in enumerate(LENGTHS):
        with torch.no_grad(), regard.record(model, folder / f"shard-{n:05}.regard"):
            for length in lengths:
                model(tokens(length, seed=next(numbers)))
    with torch.no_grad(), regard.record(model, folder / "whole.regard"):
        for n, length in enumerate(EVERY):
            model(tokens(length, seed=n))
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """A copy to spoil."""
    for file in written.glob("shard-*"):
        os.link(file, tmp_path / file.name)
    (tmp_path / "notes.txt").write_text("not one of them")
    return tmp_path


def spoilt(folder, name="shard-00001.regard"):
    """A file of its own, not the one that others share."""
    file = folder / name
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)
    return file


def test_documents_are_numbered_through(folder):
    with regard.open(folder) as rec:
        assert isinstance(rec.store, Shards) and len(rec.files) == 7
        assert len(rec.prompts) == len(EVERY)
        assert [one.number for one in rec.prompts] == list(range(len(EVERY)))
        assert [len(one.ids) for one in rec.prompts] == EVERY
        assert rec.prompt(-1).number == len(EVERY) - 1
        assert [one.number for one in rec.prompts[3:5]] == [3, 4]
        assert rec.model["family"] == "llama" and not rec.is_live and not rec.damage
        assert repr(rec).startswith(f"Recording({rec.model['name']}, {len(EVERY)} prompts")
        with pytest.raises(InputError, match="prompt 99 does not exist"):
            rec.prompt(99)
        with pytest.raises(IndexError):
            rec.prompts[99]


def test_every_answer_is_that_of_one_file(written, folder):
    with regard.open(folder) as many, regard.open(written / "whole.regard") as one:
        assert many.labels() == one.labels() and many.stacks == one.stacks
        for n in range(len(EVERY)):
            a, b = many.prompt(n), one.prompt(n)
            assert a.ids.tolist() == b.ids.tolist()
            for label in a.labels():
                np.testing.assert_array_equal(np.asarray(a[label]), np.asarray(b[label]))
            for name in STATISTICS:
                np.testing.assert_array_equal(a.grid(name), b.grid(name))
                np.testing.assert_array_equal(many.grid(name, prompt=n), b.grid(name))


def test_merged_statistics_are_those_of_one_file(written, folder):
    with regard.open(folder) as many, regard.open(written / "whole.regard") as one:
        a, b = many.merged(), one.merged()
        assert (a.documents, a.tokens, a.keys) == (len(EVERY), sum(EVERY), 12)
        for name in STATISTICS:
            np.testing.assert_allclose(a.grid(name), b.grid(name), rtol=1e-13)
            np.testing.assert_array_equal(a.rows(name), b.rows(name))


def test_few_files_are_open_at_a_time(folder):
    with regard.open(folder) as rec:
        first = rec.prompt(0)
        assert sum(len(one.ids) for one in rec.prompts) == sum(EVERY)
        rec.merged()
        assert len(rec.store._opened) <= 4
        # what was handed out answers all the same
        np.testing.assert_allclose(np.asarray(first["L0H0"]).sum(-1), 1, atol=1e-5)


def test_with_a_manifest_only_what_is_asked_for_is_opened(folder, monkeypatch):
    told = [{"file": f"shard-{n:05}.regard", "documents": len(f)} for n, f in enumerate(LENGTHS)]
    (folder / MANIFEST).write_text(json.dumps({"shards": told}))
    with regard.open(folder) as rec:
        assert len(rec.prompts) == len(EVERY)
        assert len(rec.prompt(4).ids) == EVERY[4]
        assert [file.name for file in rec.store._opened] == [told[0]["file"], told[2]["file"]]


def test_a_manifest_that_is_wrong_about_a_file(folder):
    (folder / MANIFEST).write_text(
        json.dumps({"shards": [{"file": "shard-00000.regard", "documents": 5}]})
    )
    with (
        regard.open(folder) as rec,
        pytest.raises(FileError, match=r"holds 2 documents, and manifest\.json says 5"),
    ):
        rec.prompt(0)
    fewer_than_none = '{"shards": [{"file": "shard-00000.regard", "documents": -1}]}'
    wrong = ("{", "[]", '{"shards": 5}', '{"shards": [{"file": 7}]}', "[" * 100_000)
    for text in (*wrong, fewer_than_none):
        (folder / MANIFEST).write_text(text)
        with pytest.raises(FileError, match=r"manifest\.json: cannot be read"):
            regard.open(folder)


def test_files_that_come_later_are_seen(folder):
    late = folder / "shard-00006.regard"
    late.rename(folder / "away")
    with regard.open(folder) as rec:
        assert len(rec.prompts) == len(EVERY) - 2 and not rec.refresh()
        (folder / "away").rename(late)
        assert rec.refresh()
        assert len(rec.prompts) == len(EVERY) and len(rec.prompt(-1).ids) == 2


def test_a_document_that_is_in_two_files_is_not_counted_twice(folder):
    for name in ("shard-00001.regard", "shard-00003.regard"):
        with extend(spoilt(folder, name)) as more:
            more.note({SHARD_NOTE: json.dumps({"names": ["a.txt"]})})
    with (
        regard.open(folder) as rec,
        pytest.raises(FileError, match=r"'a.txt' is in shard-00001\.regard and in shard-00003"),
    ):
        rec.merged()


def test_damage_names_the_file(folder):
    file = spoilt(folder)
    os.truncate(file, file.stat().st_size - 1)
    with regard.open(folder) as rec:
        assert rec.damage == ()
        rec.prompt(2)
        assert [one.file for one in rec.damage] == [str(file)]
    file.write_bytes(b"x")
    with (
        regard.open(folder) as rec,
        pytest.raises(FileError, match=r"shard-00001\.regard: not a regard recording"),
    ):
        rec.merged()


def test_it_is_a_store_of_every_tensor(folder):
    with Shards(folder) as store:
        name = "shard-00002/P1/L0/lse/0"
        assert name in store.entries and store.entries[name].dtype == "F32"
        assert store.array(name).shape == store.words(name).shape == (4, 4)
        with pytest.raises(InputError, match="holds no 'lse'; it has 7 files"):
            store.array("lse")


def test_a_notebook_shows_it(folder):
    with regard.open(folder) as rec:
        for value in (rec, rec.prompt(4), rec.prompt(4)["L1H2"]):
            assert "<iframe" in (as_html(value) or "")


def test_other_folders_are_what_they_were(folder, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    assert is_shards(folder) and not is_shards(empty) and not is_shards(folder / "notes.txt")
    with pytest.raises(FileError, match="without rank-0000"):
        regard.open(empty)
    with pytest.raises(FileError, match="a folder without shard-"):
        Shards(empty)
    with pytest.raises(FileError, match="without rank-0000"):
        open_recording(folder)  # tensors of one file, or of one per rank


def test_a_second_view_of_the_same_files(folder):
    """As the page takes one, to work without a lock."""
    with regard.open(folder) as rec:
        again = Recording(rec.store)
        assert len(again.prompts) == len(EVERY)
        assert again.prompts[5].ids.tolist() == rec.prompts[5].ids.tolist()


def test_tables_of_all_documents(written):
    with regard.open(written) as rec, regard.open(written / "whole.regard") as whole:
        for what in ("statistics", "rows", "merged"):
            found, wanted = rec.table(what).columns, whole.table(what).columns
            for name, column in wanted.items():
                if column.dtype == object:
                    assert found[name].tolist() == column.tolist()
                else:
                    np.testing.assert_allclose(found[name], column, rtol=1e-6, atol=1e-6)
        assert set(rec.table("rows", prompt=-1).columns["prompt"]) == {len(EVERY) - 1}
